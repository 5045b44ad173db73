"""The pipeline: its order, its purity, and rows that do not see each other."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.logits.choose import choose
from unspool.logits.orders import stages_for
from unspool.logits.pipeline import process_by_stages
from unspool.params import DecodingParams
from unspool.types import Row

params_strategy = st.builds(
    DecodingParams,
    temperature=st.sampled_from([0, 0.3, 1, 1.7, 100]),
    top_k=st.sampled_from([0, 1, 3, 50]),
    top_p=st.sampled_from([0.1, 0.9, 1.0]),
    min_p=st.sampled_from([0.0, 0.05, 1.0]),
)


def kept_ids(z):
    return np.flatnonzero(z > -np.inf)


def row(params, seed=0):
    return Row(params, seed=seed, branch=0, token_ids=range(5), n_prompt=5)


def table(seed, n_rows, n_vocab=64):
    return (np.random.default_rng(seed).integers(-24, 25, size=(n_rows, n_vocab)) / 4).astype(np.float32)


def survivors(z, rows):
    """Logits (V,) of each row after every stage."""
    result = []
    for processed in process_by_stages(z, rows, wants_candidates=True):
        after = np.full(z.shape[1], -np.inf)
        after[processed.candidates.token_ids] = processed.candidates.logits
        result.append(after)
    return result


def test_temperature_stands_before_truncation_unless_the_order_says_otherwise():
    params = DecodingParams(temperature=0.5, top_p=0.8)
    assert [stage.name for stage in stages_for(params)] == ["temperature", "top_p"]
    z = np.array([[3, 2, 1]], dtype=np.float32)
    assert kept_ids(survivors(z, [row(params)])[0]).tolist() == [0]
    last = params.replace(order=["top_p", "temperature"])
    assert kept_ids(survivors(z, [row(last)])[0]).tolist() == [0, 1]


@given(st.integers(0, 2**32 - 1), st.lists(params_strategy, min_size=1, max_size=8))
def test_a_row_in_a_batch_equals_the_row_alone_bit_for_bit(seed, params):
    z = table(seed, len(params))
    together = survivors(z, [row(p) for p in params])
    for i, p in enumerate(params):
        alone = survivors(z[i : i + 1].copy(), [row(p)])[0]
        assert together[i].tobytes() == alone.tobytes()


@given(st.integers(0, 2**32 - 1), st.lists(params_strategy, min_size=1, max_size=4))
def test_the_models_logits_are_never_written_to(seed, params):
    z = table(seed, len(params))
    before = z.tobytes()
    survivors(z, [row(p) for p in params])
    assert z.tobytes() == before


def test_neutral_parameters_are_a_bit_exact_no_op():
    z = table(1, 2)
    assert not stages_for(DecodingParams())
    for result, given_row in zip(survivors(z, [row(DecodingParams())] * 2), z, strict=True):
        assert result.astype(np.float32).tobytes() == given_row.tobytes()


@given(st.integers(0, 2**32 - 1), params_strategy, st.sampled_from([-64.0, -0.25, 8.0, 512.0]))
def test_adding_a_constant_changes_no_survivor_and_no_choice(seed, params, constant):
    z = table(seed, 1)
    plain, shifted = (survivors(t, [row(params)])[0] for t in (z, z + np.float32(constant)))
    assert kept_ids(plain).tolist() == kept_ids(shifted).tolist()
    assert choose(plain, row(params)) == choose(shifted, row(params))


@given(st.integers(0, 2**32 - 1), params_strategy)
def test_permuting_the_vocabulary_permutes_the_result(seed, params):
    rng = np.random.default_rng(seed)
    z = rng.permutation(np.arange(64) / 8).astype(np.float32)[None, :]  # no ties: order is by logit alone
    order = rng.permutation(64)
    plain = survivors(z, [row(params)])[0]
    permuted = survivors(np.ascontiguousarray(z[:, order]), [row(params)])[0]
    assert permuted.tobytes() == plain[order].tobytes()


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), params_strategy, st.integers(0, 2**63))
def test_a_masked_token_survives_no_stage_and_is_never_chosen(seed, params, draw_seed):
    z = table(seed, 1)
    masked = np.random.default_rng(seed).random(64) < 0.7
    masked[seed % 64] = False
    z[0, masked] = -np.inf
    result = survivors(z, [row(params)])[0]
    assert not np.isnan(result).any()
    assert (result[masked] == -np.inf).all()
    assert not masked[process_by_stages(z, [row(params, draw_seed)])[0].chosen.token_id]
