"""Temperatures that follow the entropy, and quadratic smoothing: the specification's values and the edges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stage_rows import in_order, kept_after, probs, row, through

from unspool.logits.dynatemp import DynamicTemperature
from unspool.logits.edt import EntropyTemperature
from unspool.params import DecodingParams

P4 = (0.4, 0.3, 0.2, 0.1)
UNIFORM = (0.25,) * 4
SURE = (0.97, 0.01, 0.01, 0.01)


def dynamic(p, low=0.5, high=1.5, exponent=1):
    params = DecodingParams(dynatemp_min=low, dynatemp_max=high, dynatemp_exponent=exponent)
    return DynamicTemperature().temperature_of(np.log(p), params)


def by_entropy(p, theta=0.5, base=0.8, temperature=1):
    params = DecodingParams(edt_theta=theta, edt_base=base, temperature=temperature)
    return EntropyTemperature().temperature_of(np.log(p), params)


@pytest.mark.parametrize(
    ("p", "exponent", "expected"),
    [(P4, 1, 1.423220), (P4, 2, 1.352335), (UNIFORM, 1, 1.5), (UNIFORM, 3, 1.5), (SURE, 1, 0.620970)],
)
def test_dynamic_temperature_has_the_values_of_the_specification(p, exponent, expected):
    assert dynamic(p, exponent=exponent) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("p", "expected"), [(UNIFORM, 0.922671), (SURE, 0.514117)])
def test_edt_has_the_values_of_the_specification(p, expected):
    assert by_entropy(p) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("kind", [{"dynatemp_min": 0.5, "dynatemp_max": 1.5}, {"edt_theta": 0.5}])
def test_logits_are_divided_by_that_temperature(kind):
    temperature = dynamic(P4) if "edt_theta" not in kind else by_entropy(P4)
    assert through(np.log(P4), row(**kind)) == pytest.approx(np.log(P4) / temperature)


def test_dynamic_temperature_counts_the_candidates_that_are_left_at_its_place():
    # Three masked candidates would make ln n larger and the share smaller.
    z = [*np.log(P4), -np.inf, -np.inf, -np.inf]
    heated = through(z, row(dynatemp_min=0.5, dynatemp_max=1.5))
    assert heated[:4] == pytest.approx(np.log(P4) / 1.423220, abs=1e-5)
    # After top-k only two are left, equally likely nearly: T is close to its upper bound.
    params = {"dynatemp_min": 0.5, "dynatemp_max": 1.5, "top_k": 2}
    last = through(np.log(P4), row(**params, order=["top_k", "dynatemp"]))
    share = -(4 / 7 * np.log(4 / 7) + 3 / 7 * np.log(3 / 7)) / np.log(2)
    assert last[:2] == pytest.approx(np.log(P4[:2]) / (0.5 + share))


def test_dynamic_temperature_of_a_single_candidate_is_the_lower_bound():
    assert dynamic((1,)) == 0.5
    assert through([-np.inf, 3], row(dynatemp_min=0.5, dynatemp_max=1.5)).tolist() == [-np.inf, 6]


def test_edt_scales_the_temperature_of_the_request():
    assert by_entropy(P4, temperature=2) == pytest.approx(2 * by_entropy(P4))
    z = through(np.log(P4), row(edt_theta=0.5, temperature=2))
    assert z == pytest.approx(np.log(P4) / (2 * by_entropy(P4)))  # divided once, not twice


def test_edt_reaches_zero_where_nothing_is_open_and_its_upper_end_where_everything_is():
    assert by_entropy((1,)) == 0
    assert by_entropy(np.full(10**6, 1e-6), theta=1e-9) == pytest.approx(1)
    assert by_entropy(probs([0, -40])) < 1e-100


def test_a_temperature_that_falls_to_zero_leaves_the_largest_logits():
    assert kept_after([2, 9000, 0, 8000], edt_theta=5) == [1]
    assert kept_after([2, 9, 0, 9], dynatemp_min=0, dynatemp_max=0) == [1, 3]
    assert kept_after([-9, -9, -np.inf, -10], dynatemp_min=0, dynatemp_max=0) == [0, 1]


@pytest.mark.parametrize(
    ("curve", "expected"), [(1, (3, 2.8, 2.2, 1.2)), (2, (3, 2.8, 1.8, -0.6)), (3, (3, 2.8, 1.4, -2.4))]
)
def test_smoothing_has_the_values_of_the_specification(curve, expected):
    z = through([3, 2, 1, 0], row(smoothing_factor=0.2, smoothing_curve=curve))
    assert z == pytest.approx(expected)


@given(
    st.lists(st.integers(-40, 40).map(lambda n: n / 4), min_size=2, max_size=20),
    st.floats(0.001, 100),
    st.floats(1, 3),
)
def test_smoothing_leaves_the_largest_logit_and_the_order(z, factor, curve):
    smoothed = through(z, row(smoothing_factor=factor, smoothing_curve=curve))
    assert smoothed.max() == max(z)
    assert in_order(smoothed) == in_order(z)


def test_smoothing_that_leaves_the_number_range_means_probability_zero():
    assert through([0, -1e200, -1e300], row(smoothing_factor=1, smoothing_curve=3)).tolist() == [
        0,
        -np.inf,
        -np.inf,
    ]


@pytest.mark.parametrize(
    "kind",
    [
        {"temperature": 3},
        {"dynatemp_min": 1, "dynatemp_max": 3},
        {"edt_theta": 1, "temperature": 3},
        {"smoothing_factor": 0.3},
    ],
)
def test_every_kind_of_temperature_stands_before_truncation(kind):
    z = np.log(P4)
    heated_first = through(through(z, row(**kind)), row(top_p=0.6))
    assert through(z, row(**kind, top_p=0.6)).tobytes() == heated_first.tobytes()
