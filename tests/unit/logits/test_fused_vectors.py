"""The specification's values and properties, through the fused pass, on each instruction set."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stage_rows import wanting

from unspool import _native
from unspool.logits import fused
from unspool.params import DecodingParams
from unspool.rules import NO_RULES, Rules
from unspool.types import Row

P4 = (0.1, 0.2, 0.3, 0.4)
FALLING = (0.4, 0.3, 0.2, 0.1)
SURE = (0.97, 0.01, 0.01, 0.01)


@pytest.fixture(params=_native.instruction_sets())
def isa(request):
    return request.param


def after(isa, logits, *, ids=(), n_prompt=0, rules=NO_RULES, seed=0, **params):
    """Logits (V,) when all is done, -inf where nobody survived."""
    z = np.array([logits], dtype=np.float32)
    row = Row(DecodingParams(**params), seed, 0, ids, n_prompt, rules)
    [done] = fused.process(z, wanting([row]), isa=isa)
    result = np.full(len(logits), -np.inf)
    result[done.candidates.token_ids] = done.candidates.logits
    return result


def probs(z):
    weights = np.exp(z - z.max())
    return weights / weights.sum()


@pytest.mark.parametrize(
    ("p", "params", "expected"),
    [
        (P4, {"top_k": 1}, (0, 0, 0, 1)),
        (P4, {"top_k": 3}, (0, 0.22222, 0.33333, 0.44444)),
        (P4, {"top_k": 0}, P4),
        (P4, {"top_p": 0.7}, (0, 0, 0.428571, 0.571429)),
        (P4, {"top_p": 0.8}, (0, 0.22222, 0.33333, 0.44444)),
        (P4, {"top_p": 1}, P4),
        (P4, {"min_p": 0.24}, P4),
        (P4, {"min_p": 0.26}, (0, 0.22222, 0.33333, 0.44444)),
        (P4, {"min_p": 0.49}, (0, 0.22222, 0.33333, 0.44444)),
        (P4, {"min_p": 0.51}, (0, 0, 0.428571, 0.571429)),
        (P4, {"min_p": 0.74}, (0, 0, 0.428571, 0.571429)),
        (P4, {"min_p": 0.76}, (0, 0, 0, 1)),
        (SURE, {"typical_p": 0.5}, (1, 0, 0, 0)),
        ((0.4, 0.2, 0.2, 0.2), {"typical_p": 0.5}, (0, 1 / 3, 1 / 3, 1 / 3)),
        (P4, {"top_n_sigma": 1}, (0, 0, 0.428571, 0.571429)),
        (FALLING, {"top_h": 0.6}, (0.571429, 0.428571, 0, 0)),
        ((0.5, 0.25, 0.125, 0.125), {"top_a": 0.5}, (0.5, 0.25, 0.125, 0.125)),
        (FALLING, {"xtc_probability": 1, "xtc_threshold": 0.09}, (0, 0, 0, 1)),
        (FALLING, {"xtc_probability": 1, "xtc_threshold": 0.19}, (0, 0, 2 / 3, 1 / 3)),
        (FALLING, {"xtc_probability": 1, "xtc_threshold": 0.29}, (0, 0.5, 1 / 3, 1 / 6)),
        (FALLING, {"xtc_probability": 1, "xtc_threshold": 0.39}, FALLING),
        ((0.6, 0.3, 0.1), {"adaptive_target": 0.3}, (0.006261, 0.929177, 0.064562)),
    ],
)
def test_values_of_truncation(isa, p, params, expected):
    assert probs(after(isa, np.log(p), **params)) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("p", "params", "temperature"),
    [
        (FALLING, {"dynatemp_min": 0.5, "dynatemp_max": 1.5}, 1.423220),
        (FALLING, {"dynatemp_min": 0.5, "dynatemp_max": 1.5, "dynatemp_exponent": 2}, 1.352335),
        ((0.25,) * 4, {"dynatemp_min": 0.5, "dynatemp_max": 1.5}, 1.5),
        (SURE, {"dynatemp_min": 0.5, "dynatemp_max": 1.5}, 0.620970),
        ((0.25,) * 4, {"edt_theta": 0.5}, 0.922671),
        (SURE, {"edt_theta": 0.5}, 0.514117),
    ],
)
def test_values_of_temperatures(isa, p, params, temperature):
    assert after(isa, np.log(p), **params) == pytest.approx(np.log(p) / temperature, rel=1e-5)


@pytest.mark.parametrize(("curve", "expected"), [(1, (3, 2.8, 2.2, 1.2)), (3, (3, 2.8, 1.4, -2.4))])
def test_values_of_smoothing(isa, curve, expected):
    z = after(isa, (3, 2, 1, 0), smoothing_factor=0.2, smoothing_curve=curve)
    assert z == pytest.approx(expected)


@pytest.mark.parametrize(
    ("p", "ids", "params", "expected"),
    [
        ((0.2,) * 5, (0,), {"repetition_penalty": 50}, (0, 0.25, 0.25, 0.25, 0.25)),
        ((0.2,) * 5, (0, 1, 2), {"repetition_penalty": 50}, (0, 0, 0, 0.5, 0.5)),
        ((0.25,) * 4, (0, 1), {"dry_multiplier": 1, "dry_base": 1.1}, (0.25,) * 4),
        (
            (0.25,) * 4,
            (0, 1, 2, 0, 1),
            {"dry_multiplier": 1, "dry_base": 1.1},
            (0.296923, 0.296923, 0.109232, 0.296923),
        ),
        (
            (0.2,) * 5,
            (0, 1, 2, 0, 1),
            {"dry_multiplier": 2, "dry_base": 1.1},
            (0.241818, 0.241818, 0.032727, 0.241818, 0.241818),
        ),
    ],
)
def test_values_of_penalties(isa, p, ids, params, expected):
    assert probs(after(isa, np.log(p), ids=ids, **params)) == pytest.approx(expected, abs=1e-5)


def test_a_breaker_ends_a_repeat(isa):
    breaker = Rules(dry_breaker_ids=frozenset([3]))
    z = after(isa, np.zeros(5), ids=(0, 1, 3, 4, 0, 1), rules=breaker, dry_multiplier=1, dry_base=1.1)
    assert z.tolist() == [0.0] * 5


@pytest.mark.parametrize(("logit", "expected"), [(2.0, 0.5), (0.3, -0.35)])
def test_repetition_comes_before_frequency(isa, logit, expected):
    z = after(isa, (logit, 9.0), ids=(0,), repetition_penalty=2, frequency_penalty=0.5)
    assert z[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("order", "kept"), [("unspool", [0]), (["top_p", "temperature"], [0, 1])], ids=["first", "last"]
)
def test_temperature_stands_where_the_order_says(isa, order, kept):
    z = after(isa, (3, 2, 1), temperature=0.5, top_p=0.8, order=order)
    assert np.flatnonzero(z > -np.inf).tolist() == kept


def test_ties_of_top_k_go_to_the_lowest_ids_and_a_preset_keeps_them(isa):
    assert np.flatnonzero(after(isa, (1, 1, 1, 0), top_k=2) > -np.inf).tolist() == [0, 1]
    assert np.flatnonzero(after(isa, (1, 1, 1, 0), top_k=2, order="vllm") > -np.inf).tolist() == [0, 1, 2]


@pytest.mark.parametrize(("token_id", "mu"), [(0, 2.0), (1, 1.9)])
def test_mirostat_learns_from_the_chosen_token(isa, token_id, mu):
    params = DecodingParams(mirostat=2, mirostat_tau=1.0, mirostat_eta=0.1, order=["mirostat", "bias"],
                            logit_bias={token_id: 100.0})  # fmt: skip
    row = Row(params, 0, 0, (), 0, Rules(bias=((token_id, 100.0),)))
    z = np.log([[0.5, 0.25, 0.125, 0.125]]).astype(np.float32)
    [done] = fused.process(z, [row], isa=isa)
    assert done.chosen.token_id == token_id
    assert 2.0 - 0.1 * (done.chosen.observed - 1.0) == pytest.approx(mu, abs=1e-6)


def test_adaptive_p_learns_the_probability_before_it(isa):
    z = np.log([[0.6, 0.3, 0.1]]).astype(np.float32)
    [done] = fused.process(z, [Row(DecodingParams(adaptive_target=0.3, seed=1), 1, 0, (), 0)], isa=isa)
    assert done.chosen.observed == pytest.approx((0.6, 0.3, 0.1)[done.chosen.token_id], abs=1e-6)


methods = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.sampled_from([0.3, 1.7]),
        "top_n_sigma": st.sampled_from([0.5, 2.0]),
        "top_k": st.integers(1, 400),
        "top_p": st.floats(0.05, 0.99),
        "min_p": st.floats(0.001, 0.5),
        "typical_p": st.floats(0.05, 0.99),
        "top_h": st.floats(0.05, 0.99),
        "eta_cutoff": st.sampled_from([1e-4, 0.01]),
        "tfs_z": st.sampled_from([0.3, 0.9]),
    },
)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), methods, st.integers(0, 8000))
def test_a_permutation_of_the_vocabulary_permutes_the_result(seed, params, n_more):
    rng = np.random.default_rng(seed)
    z = rng.permutation(np.arange(300 + n_more)).astype(np.float32) / 64  # no ties: order is by logit alone
    order = rng.permutation(z.size)
    plain, permuted = after("", z, **params), after("", z[order], **params)
    assert np.array_equal(permuted > -np.inf, plain[order] > -np.inf)
    alive = permuted > -np.inf
    assert permuted[alive] == pytest.approx(plain[order][alive], rel=1e-12)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), methods, st.sampled_from([-64.0, -0.25, 8.0, 512.0]))
def test_a_constant_added_to_all_logits_changes_no_survivor(seed, params, constant):
    z = (np.random.default_rng(seed).integers(-24, 25, 700) / 4).astype(np.float32)
    plain, shifted = after("", z, **params), after("", z + np.float32(constant), **params)
    assert np.array_equal(plain > -np.inf, shifted > -np.inf)


def test_neutral_parameters_are_a_bit_exact_no_op(isa):
    z = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    assert after(isa, z).astype(np.float32).tobytes() == z.tobytes()
