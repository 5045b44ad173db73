"""Properties over random rows and random requests: what holds whatever the methods and their order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stage_rows import kept_after, kept_ids, row, through, wanting

from unspool.logits.pipeline import process_by_stages
from unspool.param_conflicts import STAGES, TEMPERATURES, TRUNCATION
from unspool.params import DecodingParams
from unspool.types import Row

TEMPERATURE = st.one_of(
    st.just({}),
    st.sampled_from([0, 1e-30, 0.3, 1.7, 100]).map(lambda t: {"temperature": t}),
    st.sampled_from([(0, 0), (0, 2), (0.5, 1.5)]).map(lambda b: {"dynatemp_min": b[0], "dynatemp_max": b[1]}),
    st.sampled_from([0.1, 5]).map(lambda theta: {"edt_theta": theta}),
    st.sampled_from([0.01, 50]).map(lambda f: {"smoothing_factor": f, "smoothing_curve": 2}),
)
CUTS = {
    "top_n_sigma": [0.3, 2],
    "top_k": [1, 3, 50],
    "top_p": [0.1, 0.9],
    "min_p": [0.05, 1.0],
    "typical_p": [0.2, 0.9],
    "top_h": [0.3, 0.9],
    "epsilon_cutoff": [1e-4, 0.3],
    "eta_cutoff": [1e-4, 0.3],
    "top_a": [0.1, 1.0],
    "tfs_z": [0.3, 0.95],
    "xtc_probability": [0.5, 1.0],
}
TRUNCATING = st.fixed_dictionaries({}, optional={name: st.sampled_from(of) for name, of in CUTS.items()})
STEERING = st.sampled_from([(1, 0.5), (1, 5), (2, 0.5), (2, 5)]).map(
    lambda m: {"mirostat": m[0], "mirostat_tau": m[1]}
)
ADAPTIVE = st.sampled_from([{}, {"adaptive_target": 0.3}])
SHAPES = st.one_of(
    st.tuples(TEMPERATURE, TRUNCATING, ADAPTIVE).map(lambda parts: {**parts[0], **parts[1], **parts[2]}),
    st.tuples(TEMPERATURE, STEERING).map(lambda parts: {**parts[0], **parts[1]}),
)


def test_every_method_is_among_the_random_requests():
    assert set(CUTS) == {STAGES[stage][0] for stage in TRUNCATION}


def table(seed, n_rows=1, n_vocab=48):
    """Logits with many ties and many masked, in which a row is sometimes flat, huge or nearly empty."""
    rng = np.random.default_rng(seed)
    z = (rng.integers(-24, 25, size=(n_rows, n_vocab)) / 4 * rng.choice([0, 1, 1, 1, 1e6, 1e28])).astype(
        np.float32
    )
    z[rng.random(z.shape) < rng.choice([0, 0.3, 0.97])] = -np.inf
    z[:, seed % n_vocab] = 1
    return z


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32 - 1), SHAPES)
def test_a_masked_token_survives_nothing_and_one_that_survives_is_chosen(seed, shape):
    z = table(seed)
    (processed,) = process_by_stages(z, wanting([row(seed=seed, **shape)]))
    assert np.isfinite(processed.candidates.logits).all()
    assert (z[0, processed.candidates.token_ids] > -np.inf).all()
    assert processed.chosen.token_id in processed.candidates.token_ids


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(SHAPES, min_size=2, max_size=6))
def test_a_row_of_a_mixed_batch_has_the_bits_of_the_row_alone(seed, shapes):
    z = table(seed, len(shapes))
    rows = [row(seed=seed + i, branch=i, position=i, **shape) for i, shape in enumerate(shapes)]
    together = process_by_stages(z, wanting(rows))
    for i, one in enumerate(together):
        (alone,) = process_by_stages(z[i : i + 1].copy(), wanting(rows[i : i + 1]))
        assert alone.chosen == one.chosen
        assert alone.candidates.token_ids.tolist() == one.candidates.token_ids.tolist()
        assert alone.candidates.logits.tobytes() == one.candidates.logits.tobytes()


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), SHAPES, st.sampled_from([-64.0, -0.25, 8.0, 512.0]))
def test_adding_a_constant_changes_no_survivor_and_no_choice(seed, shape, constant):
    z = np.random.default_rng(seed).integers(-24, 25, size=(1, 48)).astype(np.float32) / 4
    plain, shifted = (
        process_by_stages(t, wanting([row(seed=seed, **shape)]))[0] for t in (z, z + np.float32(constant))
    )
    assert plain.candidates.token_ids.tolist() == shifted.candidates.token_ids.tolist()
    assert plain.chosen.token_id == shifted.chosen.token_id


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), SHAPES)
def test_permuting_the_vocabulary_permutes_the_result(seed, shape):
    rng = np.random.default_rng(seed)
    z = rng.permutation(48) / 8  # no ties, which go by token id
    order = rng.permutation(48)
    plain, permuted = through(z, row(**shape))[order], through(z[order], row(**shape))
    assert kept_ids(permuted) == kept_ids(plain)
    np.testing.assert_allclose(permuted, plain, rtol=1e-9, atol=1e-9)


def test_neutral_parameters_are_a_bit_exact_no_op():
    neutral = dict(STAGES.values())
    z = table(3)
    (processed,) = process_by_stages(z, wanting([row(**neutral, xtc_threshold=0.2)]))
    alive = np.flatnonzero(z[0] > -np.inf)
    assert processed.candidates.token_ids.tolist() == alive.tolist()
    assert processed.candidates.logits.astype(np.float32).tobytes() == z[0, alive].tobytes()


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), SHAPES)
def test_at_temperature_zero_the_largest_logit_is_taken_whatever_else_is_asked(seed, shape):
    z = table(seed)
    kind = {"dynatemp_min", "dynatemp_max", "edt_theta", "smoothing_factor", "smoothing_curve", "temperature"}
    rest = {name: value for name, value in shape.items() if name not in kind}
    (processed,) = process_by_stages(z, [row(temperature=0, **rest)])
    assert processed.chosen.token_id == int(z[0].argmax())
    assert processed.chosen.observed is None


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.permutations(TRUNCATION), TRUNCATING)
def test_any_order_of_the_methods_leaves_a_candidate(seed, order, cuts):
    params = DecodingParams(**cuts, order=["temperature", *order])
    z = table(seed)
    (processed,) = process_by_stages(z, wanting([Row(params, seed, 0, (), 0)]))
    assert processed.candidates.token_ids.size >= 1
    assert z[0, processed.chosen.token_id] > -np.inf


IDEMPOTENT = [
    {"top_k": 3}, {"min_p": 0.2}, {"epsilon_cutoff": 0.03}, {"mirostat": 2, "mirostat_tau": 2},
]  # fmt: skip


@pytest.mark.parametrize("method", IDEMPOTENT)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_method_that_looks_at_each_candidate_by_itself_is_idempotent(method, seed):
    # Renormalised probabilities only grow, so what has reached a fixed threshold reaches it again.
    once = through(table(seed)[0], row(**method))
    assert through(once, row(**method)).tobytes() == once.tobytes()


NOT_IDEMPOTENT = [
    ({"top_p": 0.5}, (0.4, 0.3, 0.3), [0, 1], [0]),
    ({"typical_p": 0.5}, (0.4, 0.3, 0.3), [1, 2], [1]),
    ({"top_n_sigma": 1}, (0.4, 0.3, 0.2, 0.1), [0, 1], [0]),
    ({"top_h": 0.6}, (0.4, 0.3, 0.2, 0.1), [0, 1], [0]),
    ({"eta_cutoff": 0.5}, (0.4, 0.3, 0.2, 0.1), [0, 1, 2], [0, 1]),
    ({"top_a": 0.5}, (0.5, 0.3, 0.13, 0.07), [0, 1, 2], [0, 1]),
    ({"tfs_z": 0.95}, (0.6, 0.2, 0.1, 0.06, 0.04), [0, 1, 2], [0]),
    ({"xtc_probability": 1, "xtc_threshold": 0.3}, (0.4, 0.3, 0.2, 0.1), [1, 2, 3], [2, 3]),
    ({"mirostat": 1, "mirostat_tau": 1}, (0.9, 0.07, 0.03), [0, 1], [0]),
]


@pytest.mark.parametrize(("method", "p", "once", "twice"), NOT_IDEMPOTENT)
def test_a_method_that_looks_at_the_whole_cannot_be_idempotent(method, p, once, twice):
    # Masses, entropies, deviations and bends are of the survivors, and a second pass has others.
    assert kept_after(np.log(p), **method) == once
    first = through(np.log(p), row(**method))
    assert kept_ids(through(first, row(**method))) == twice


def test_every_truncation_is_either_idempotent_or_shown_not_to_be():
    named = {name for method in IDEMPOTENT for name in method}
    named |= {name for method, *_ in NOT_IDEMPOTENT for name in method}
    assert {STAGES[stage][0] for stage in (*TRUNCATION, "mirostat")} <= named
    assert not {STAGES[stage][0] for stage in TEMPERATURES} & named
