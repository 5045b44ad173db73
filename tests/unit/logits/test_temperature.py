"""Temperature divides, and survives values that leave float32."""

from __future__ import annotations

import numpy as np
import pytest

from unspool.logits.temperature import Temperature
from unspool.params import DecodingParams
from unspool.types import Row


def heat(rows, temperatures):
    asking = [Row(DecodingParams(temperature=t), 0, 0, (), 0) for t in temperatures]
    return Temperature().apply(np.array(rows, dtype=np.float32), asking)


def test_each_row_is_divided_by_its_own_temperature():
    assert heat([[1, 2], [1, 2]], [2, 0.5]).tolist() == [[0.5, 1.0], [2.0, 4.0]]


def test_temperature_is_off_at_zero_and_at_one():
    stage = Temperature()
    assert [stage.is_active(DecodingParams(temperature=t)) for t in (0, 1, 0.5, 100)] == [
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize("temperature", [1e-6, 1e-7, 1e-38, 1e-45, 5e-324])
def test_a_tiny_temperature_leaves_the_largest_logit_finite(temperature):
    result = heat([[3e4, 5e4, 5e4, -1e38, -np.inf]], [temperature])[0]
    assert np.isfinite(result[1])
    assert result[1] == result[2]
    assert result[0] < result[1]
    assert result[4] == -np.inf
    assert not np.isnan(result).any()


def test_a_row_that_overflows_does_not_touch_the_row_beside_it():
    together = heat([[3e38, 1], [3, 1]], [0.5, 0.7])
    assert together[1].tobytes() == heat([[3, 1]], [0.7])[0].tobytes()
    assert together[0].tolist() == [0.0, -np.inf]
