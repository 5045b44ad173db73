"""pass@k and its interval."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from unspool.errors import BadRequest
from unspool.search.pass_at_k import mean_pass_at_k, pass_at_k, wilson


@pytest.mark.parametrize(
    ("n", "n_correct", "k", "expected"),
    [
        (10, 3, 1, 0.3),
        (10, 3, 5, 0.916667),
        (5, 2, 2, 0.7),
        (20, 1, 10, 0.5),
        (200, 10, 100, 0.999229),
        (10, 0, 5, 0.0),
        (5, 4, 2, 1.0),
    ],
)
def test_values_of_the_specification(n, n_correct, k, expected):
    assert pass_at_k(n, n_correct, k) == pytest.approx(expected, abs=5e-7)


def test_the_product_equals_the_ratio_of_binomials():
    for n in range(1, 14):
        for n_correct in range(n + 1):
            for k in range(1, n + 1):
                exact = 1 - Fraction(math.comb(n - n_correct, k), math.comb(n, k))
                assert pass_at_k(n, n_correct, k) == pytest.approx(float(exact), abs=1e-12)


def test_a_set_of_problems_has_the_mean_of_theirs():
    assert mean_pass_at_k([(10, 3), (5, 5)], 1) == pytest.approx(0.65)


@pytest.mark.parametrize(
    ("n_correct", "n", "low", "high"),
    # Values of Wilson's formula worked out by hand with z = 1.959964.
    [(0, 10, 0.0, 0.277533), (10, 10, 0.722467, 1.0), (5, 10, 0.236593, 0.763407), (1, 1, 0.206549, 1.0)],
)
def test_wilson_interval(n_correct, n, low, high):
    interval = wilson(n_correct, n)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-6)
    assert (interval.estimate, interval.confidence) == (n_correct / n, 0.95)


def test_more_confidence_is_a_wider_interval_and_more_tries_a_narrower():
    assert wilson(5, 10, confidence=0.99).low < wilson(5, 10).low < wilson(50, 100).low


@pytest.mark.parametrize(
    "call",
    [
        lambda: pass_at_k(5, 6, 1),
        lambda: pass_at_k(5, 1, 6),
        lambda: pass_at_k(5, 1, 0),
        lambda: pass_at_k(5, -1, 1),
        lambda: mean_pass_at_k([], 1),
        lambda: wilson(0, 0),
        lambda: wilson(3, 2),
        lambda: wilson(1, 2, confidence=1.0),
    ],
)
def test_what_has_no_value_is_refused(call):
    with pytest.raises(BadRequest):
        call()
