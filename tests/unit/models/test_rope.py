"""Rotary frequencies against their formulas in the papers, worked out here by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unspool.models.rope import (
    LinearScaling,
    Llama3Scaling,
    YarnScaling,
    divided,
    frequencies,
    rotary,
    yarn_magnitude,
)


def test_frequencies_fall_from_one_towards_the_base():
    assert frequencies(10_000.0, 8) == pytest.approx([1.0, 0.1, 0.01, 0.001])


def test_without_scaling_a_rotation_is_its_frequencies():
    plain = rotary(100.0, 4)
    assert plain.inv_freq == pytest.approx((1.0, 0.1))
    assert plain.magnitude == 1.0


def test_linear_scaling_divides_every_frequency():
    scaled = rotary(10_000.0, 8, LinearScaling(4.0))
    assert scaled.inv_freq == pytest.approx((0.25, 0.025, 0.0025, 0.00025))
    assert scaled.magnitude == 1.0


def test_llama3_keeps_fast_pairs_divides_slow_ones_and_blends_between():
    context = 2 * math.pi * 100  # so that the turns of a frequency are 100 times it
    scaling = Llama3Scaling(8.0, 1.0, 4.0, original_context_length=round(context))
    turns = frequencies(10_000.0, 16) * round(context) / (2 * math.pi)  # 100, 31.6, 10, 3.16, 1, ...
    expected = []
    for each, inv_freq in zip(turns, frequencies(10_000.0, 16), strict=True):
        if each > 4:
            expected.append(inv_freq)
        elif each < 1:
            expected.append(inv_freq / 8)
        else:
            keep = (each - 1) / 3
            expected.append(keep * inv_freq + (1 - keep) * inv_freq / 8)
    assert sum(1 <= each <= 4 for each in turns) == 1
    assert rotary(10_000.0, 16, scaling).inv_freq == pytest.approx(expected)


def test_llama3_with_equal_bounds_is_a_step():
    inv_freq = rotary(10_000.0, 16, Llama3Scaling(8.0, 2.0, 2.0, 100)).inv_freq
    ratios = np.asarray(inv_freq) / frequencies(10_000.0, 16)
    assert set(np.round(ratios, 6)) == {1.0, 0.125}


def test_yarn_keeps_pairs_of_many_turns_and_divides_pairs_of_few():
    n, base, context, factor = 64, 10_000.0, 2048, 8.0
    scaled = rotary(base, n, YarnScaling(factor, context))
    ratios = np.asarray(scaled.inv_freq) / frequencies(base, n)
    first = math.floor(n * math.log(context / (32 * 2 * math.pi)) / (2 * math.log(base)))
    last = math.ceil(n * math.log(context / (2 * math.pi)) / (2 * math.log(base)))
    assert 0 < first < last < n // 2
    assert ratios[: first + 1] == pytest.approx(1.0)
    assert ratios[last:] == pytest.approx(1 / factor)
    steps = np.diff(ratios[first : last + 1])
    assert steps == pytest.approx(steps[0])  # a straight ramp between
    assert scaled.magnitude == pytest.approx(0.1 * math.log(factor) + 1)


def test_yarn_without_truncation_starts_its_ramp_between_pairs():
    sharp = YarnScaling(4.0, 2048, truncate=False)
    assert rotary(10_000.0, 64, sharp).inv_freq != rotary(10_000.0, 64, YarnScaling(4.0, 2048)).inv_freq


def test_yarn_of_a_context_shorter_than_a_turn_divides_everything():
    scaled = rotary(10_000.0, 8, YarnScaling(2.0, 4))
    assert scaled.inv_freq == pytest.approx(frequencies(10_000.0, 8) / np.array([1, 2, 2, 2]))


def test_a_stated_yarn_magnitude_wins():
    assert rotary(10_000.0, 8, YarnScaling(4.0, 2048, magnitude=1.25)).magnitude == 1.25


@pytest.mark.parametrize(
    ("factor", "multiplier", "expected"),
    [(1.0, 1.0, 1.0), (0.5, 1.0, 1.0), (math.e, 1.0, 1.1), (math.e**2, 0.5, 1.1)],
)
def test_the_yarn_magnitude_grows_with_the_log_of_the_factor(factor, multiplier, expected):
    assert yarn_magnitude(factor, multiplier) == pytest.approx(expected)


def test_each_frequency_can_have_its_own_divisor():
    scaled = divided(rotary(10_000.0, 8), [1.0, 2.0, 4.0, 8.0])
    assert scaled.inv_freq == pytest.approx((1.0, 0.05, 0.0025, 0.000125))
