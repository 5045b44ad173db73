"""What every stage of the pipeline owes; a new stage is tested by being in PIPELINE."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.logits.masks import MASKS
from unspool.logits.orders import PIPELINE
from unspool.param_conflicts import TEMPERATURES, TRUNCATION
from unspool.params import DecodingParams
from unspool.rules import Rules
from unspool.types import Row

SCOPES = [
    {},
    {"penalty_scope": "all", "penalty_window": 2},
    {"penalty_scope": "output", "penalty_exclude_ids": [2]},
    {"penalty_scope": "prompt", "penalty_exclude_template": True},
]

# Parameters that make each stage active. A stage that is missing here fails the first test.
ACTIVE = {
    "allowed_tokens": [DecodingParams(allowed_token_ids=ids) for ids in ([0], [1, 3], [2, 0, 3], [3])],
    "banned_tokens": [
        DecodingParams(banned_token_ids=ids, logit_bias=bias)
        for ids, bias in (([0], ()), ((), {1: False}), ([3, 2], {0: False, 1: 5}), ([0, 1, 2], ()))
    ],
    "bad_words": [DecodingParams(bad_words=words) for words in ("0", "12", ["130", "3"], ["21", "121"])],
    "no_repeat_ngram": [DecodingParams(no_repeat_ngram_size=n) for n in (1, 2, 3, 9)],
    "min_tokens": [DecodingParams(min_tokens=n) for n in (1, 3, 4, 99)],
    "repetition": [
        DecodingParams(repetition_penalty=theta, **scope)
        for theta, scope in zip((1e-300, 0.5, 1.3, 100), SCOPES, strict=True)
    ],
    "frequency": [
        DecodingParams(frequency_penalty=f, **scope) for f, scope in zip((-2, 0.5, 1, 2), SCOPES, strict=True)
    ],
    "presence": [
        DecodingParams(presence_penalty=s, **scope) for s, scope in zip((-2, 0.5, 1, 2), SCOPES, strict=True)
    ],
    "dry": [
        DecodingParams(
            dry_multiplier=m, dry_base=b, dry_allowed_length=n, dry_window=w, dry_breakers=breakers
        )
        for m, b, n, w, breakers in (
            (1, 1.1, 1, None, "3"),
            (100, 100, 1, None, ()),
            (1, 1.75, 2, 5, ()),
            (0.5, 1, 2, None, "0"),
        )
    ],
    "bias": [
        DecodingParams(logit_bias=bias) for bias in ({0: 100}, {1: -100, 2: 0.5}, {3: 1, 2: False}, {1: 0})
    ],
    "temperature": [DecodingParams(temperature=t) for t in (1e-30, 0.2, 3, 100)],
    "dynatemp": [
        DecodingParams(dynatemp_min=low, dynatemp_max=high, dynatemp_exponent=e)
        for low, high, e in ((0, 0, 1), (0, 2, 1), (0.5, 1.5, 2), (3, 100, 0.1))
    ],
    "edt": [
        DecodingParams(edt_theta=theta, edt_base=base, temperature=t)
        for theta, base, t in ((0.5, 0.8, 1), (100, 1e-9, 1e-30), (0.1, 0.5, 3), (2, 0.99, 100))
    ],
    "smoothing": [
        DecodingParams(smoothing_factor=f, smoothing_curve=c)
        for f, c in ((0.2, 1), (0.2, 3), (1e-9, 2), (100, 1.5))
    ],
    "top_n_sigma": [DecodingParams(top_n_sigma=n) for n in (1e-9, 0.5, 1, 2)],
    "top_k": [DecodingParams(top_k=k) for k in (1, 2, 7, 50)],
    "top_p": [DecodingParams(top_p=p) for p in (1e-9, 0.3, 0.8, 0.95)],
    "min_p": [DecodingParams(min_p=p) for p in (1e-9, 0.1, 0.5, 1)],
    "typical": [DecodingParams(typical_p=p) for p in (1e-9, 0.3, 0.8, 0.95)],
    "top_h": [DecodingParams(top_h=h) for h in (1e-9, 0.3, 0.6, 0.95)],
    "epsilon": [DecodingParams(epsilon_cutoff=e) for e in (1e-9, 3e-4, 0.1, 0.9)],
    "eta": [DecodingParams(eta_cutoff=e) for e in (1e-9, 3e-4, 0.1, 0.9)],
    "top_a": [DecodingParams(top_a=a) for a in (1e-9, 0.1, 0.5, 1)],
    "tfs": [DecodingParams(tfs_z=z) for z in (1e-9, 0.3, 0.8, 0.95)],
    "xtc": [
        DecodingParams(xtc_probability=pi, xtc_threshold=t)
        for pi, t in ((1, 0), (1, 0.01), (0.5, 0.1), (1e-9, 0.5))
    ],
    "mirostat": [
        DecodingParams(mirostat=version, mirostat_tau=tau)
        for version, tau in ((1, 0.1), (1, 3), (2, 1e-9), (2, 2))
    ],
    "adaptive": [DecodingParams(adaptive_target=target) for target in (0, 0.1, 0.5, 1)],
}


EXTREMES = {
    "one survivor": [-np.inf, 3, -np.inf, -np.inf],
    "all equal": [2.5] * 9,
    "all equal and huge": [-1e30] * 9,
    "two equal and the rest masked": [-np.inf, -1e30, -np.inf, -1e30, -np.inf],
    "huge": [1e30, -1e30, 1e30, 0, 3e38, -3e38],
    "huge and masked": [-3e38, -np.inf, -np.inf, -3e38, -np.inf, 3e38],
    "one that is certain": [0, -1000, -1e6, -1e38, -np.inf],
    "tiny": [1e-45, 0, -1e-45, 1e-38],
    "barely apart": [1, 1 + 2**-23, 1, 1 - 2**-23],
}


MAY_EMPTY = {mask.name for mask in MASKS}  # a row; what follows then is the pipeline's to say


def row(params):
    """A text that repeats itself; texts in the parameters are written in digits that are token ids."""
    rules = Rules(
        end_ids=frozenset({0, 3}),
        bias=tuple((i, bias) for i, bias in params.biases if bias is not False),
        banned_ids=frozenset(params.banned_token_ids) | {i for i, bias in params.biases if bias is False},
        bad_words=tuple(tuple(map(int, word)) for word in params.bad_words),
        dry_breaker_ids=frozenset(int(text) for text in params.dry_breakers if text.isdigit()),
        template_positions=frozenset({0, 2}),
    )
    return Row(params, seed=1, branch=0, token_ids=(1, 2, 1, 2, 3, 1, 2, 1), n_prompt=5, rules=rules)


def renamed(row, new):
    """The row in a vocabulary where token i is called new[i]."""

    def ids(old):
        return type(old)(new[i] for i in old)

    rules, params = row.rules, row.params
    return replace(
        row,
        token_ids=ids(row.token_ids),
        params=params.replace(
            penalty_exclude_ids=ids(params.penalty_exclude_ids),
            allowed_token_ids=None if params.allowed_token_ids is None else ids(params.allowed_token_ids),
        ),
        rules=replace(
            rules,
            end_ids=ids(rules.end_ids),
            bias=tuple((new[i], bias) for i, bias in rules.bias),
            banned_ids=ids(rules.banned_ids),
            bad_words=tuple(map(ids, rules.bad_words)),
            dry_breaker_ids=ids(rules.dry_breaker_ids),
        ),
    )


def table(seed, n_rows):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n_rows, 40)).astype(np.float32) * 5
    z[rng.random(z.shape) < 0.4] = -np.inf
    z[:, seed % 40] = 1
    return z


def assert_close(result, expected):
    """Same survivors, and logits that differ by rounding at most."""
    assert ((result > -np.inf) == (expected > -np.inf)).all()
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-9)


def test_every_stage_is_held_to_the_contract():
    assert [stage.name for stage in PIPELINE] == list(ACTIVE)
    for stage in PIPELINE:
        assert all(stage.is_active(params) for params in ACTIVE[stage.name])


@pytest.mark.parametrize("stage", PIPELINE, ids=lambda stage: stage.name)
class TestStage:
    def test_is_inactive_for_default_and_for_greedy_parameters(self, stage):
        assert not stage.is_active(DecodingParams())
        assert not stage.is_active(DecodingParams(temperature=0))

    def test_is_inactive_at_temperature_zero_when_it_shapes_or_cuts(self, stage):
        if stage.name in (*TEMPERATURES, *TRUNCATION, "mirostat", "adaptive"):
            assert not any(stage.is_active(p.replace(temperature=0)) for p in ACTIVE[stage.name])

    def test_works_on_the_largest_vocabularies(self, stage):
        z = np.random.default_rng(0).normal(size=(1, 262_144)).astype(np.float32)
        result = stage.apply(z, [row(ACTIVE[stage.name][1])])
        assert (result > -np.inf).any()
        assert not np.isnan(result).any()

    @given(seed=st.integers(0, 2**32 - 1))
    def test_does_not_write_to_its_input(self, stage, seed):
        z = table(seed, 4)
        before = z.tobytes()
        result = stage.apply(z, [row(p) for p in ACTIVE[stage.name]])
        assert z.tobytes() == before
        assert not np.shares_memory(result, z)
        assert (result.shape, result.dtype) == (z.shape, np.dtype(np.float32))
        assert stage.apply(z.astype(np.float64), [row(p) for p in ACTIVE[stage.name]]).dtype == np.float64

    @given(seed=st.integers(0, 2**32 - 1))
    def test_gives_a_row_in_a_batch_the_bits_of_the_row_alone(self, stage, seed):
        z = table(seed, 4)
        rows = [row(p) for p in ACTIVE[stage.name]]
        together = stage.apply(z, rows)
        for i in range(4):
            assert stage.apply(z[i : i + 1], rows[i : i + 1])[0].tobytes() == together[i].tobytes()

    @given(seed=st.integers(0, 2**32 - 1))
    def test_keeps_masks_makes_no_nan_and_leaves_a_candidate(self, stage, seed):
        z = table(seed, 4)
        result = stage.apply(z, [row(p) for p in ACTIVE[stage.name]])
        assert (result[z == -np.inf] == -np.inf).all()
        assert not np.isnan(result).any()
        assert stage.name in MAY_EMPTY or (result > -np.inf).any(axis=1).all()

    @given(seed=st.integers(0, 2**32 - 1))
    def test_permutes_with_the_vocabulary(self, stage, seed):
        rng = np.random.default_rng(seed)
        z = np.stack([rng.permutation(40) for _ in range(4)]).astype(np.float32) / 4
        order = rng.permutation(40)
        rows = [row(p) for p in ACTIVE[stage.name]]
        new = np.argsort(order).tolist()
        permuted = stage.apply(np.ascontiguousarray(z[:, order]), [renamed(row, new) for row in rows])
        # Sums over the vocabulary go in another order then, so the last bits may differ.
        assert_close(permuted, stage.apply(z, rows)[:, order])

    @given(seed=st.integers(0, 2**32 - 1), constant=st.sampled_from([-64.0, -0.25, 8.0, 512.0]))
    def test_gives_the_same_distribution_when_a_constant_is_added(self, stage, seed, constant):
        if stage.name == "repetition":
            pytest.skip("multiplies logits, so it depends on where their zero is")
        z = np.random.default_rng(seed).integers(-40, 40, size=(4, 40)) / 4.0
        rows = [row(p) for p in ACTIVE[stage.name]]
        shifted, plain = stage.apply(z + constant, rows), stage.apply(z, rows)
        assert_close(shifted - shifted.max(axis=1, keepdims=True), plain - plain.max(axis=1, keepdims=True))

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("extreme", EXTREMES, ids=list(EXTREMES))
    def test_survives_numbers_that_breed_nan(self, stage, extreme, dtype):
        z = np.array([EXTREMES[extreme]] * 4, dtype=dtype)
        result = stage.apply(z, [row(p) for p in ACTIVE[stage.name]])
        assert (result[z == -np.inf] == -np.inf).all()
        assert (result < np.inf).all()  # which a NaN is not
        assert stage.name in MAY_EMPTY or (result > -np.inf).any(axis=1).all()
