"""The scale, and perhaps the offset, with which small integers come nearest to the values of a block.

For given integers the best scale and offset are those of a least-squares line, in closed form. Which integers
is found by search: they are the values times a factor, rounded, for a few factors about the one that lets
the largest value just fit, because giving up a little of the largest often serves all the others.

This says how; who has many blocks asks `fast_fit`, which is native and gives the same bits. So sums run over
the values of a block one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from unspool.types import F32

# How many levels more or fewer the range of a block is spread over than there are.
_STRETCHES: Final = (-1.2, -0.9, -0.6, -0.3, 0.0, 0.3, 0.6, 0.9)
_FEW: Final = np.float32(1e-30)


def inverse(scale: F32) -> F32:
    """1 / scale, and 0 where the scale is 0 (or so small that its inverse would be infinite)."""
    tiny = np.abs(scale) < _FEW
    result: F32 = np.where(tiny, np.float32(0), np.float32(1) / np.where(tiny, np.float32(1), scale))
    return result


def rounded(values: F32, lowest: int, highest: int) -> F32:
    """The nearest whole number in [lowest, highest]; the array is written over."""
    np.rint(values, out=values)
    return np.clip(values, lowest, highest, out=values)


def fit_line(x: F32, highest: int, *, lets_min_be_positive: bool) -> tuple[F32, F32]:
    """(N, B) values -> scale (N, 1) >= 0 and minimum (N, 1), for integers in [0, highest].

    A minimum that may not be positive is 0 where it would be, and the line then goes through 0.
    """
    n, x = np.float32(x.shape[1]), x.T  # (B, N)
    low, high = x.min(axis=0), x.max(axis=0)
    if not lets_min_be_positive:
        low = np.minimum(low, np.float32(0))
    per_level = inverse(high - low)
    sum_x = _sum(x)
    best_scale, best_minimum = np.zeros_like(low), low.copy()
    best_error = np.full_like(low, np.inf)
    for stretch in _STRETCHES:
        q = rounded((x - low) * (np.float32(highest + stretch) * per_level), 0, highest)
        sum_q, sum_qq, sum_qx = _sum(q), _sum(q * q), _sum(q * x)
        determinant = n * sum_qq - sum_q * sum_q
        one_level = determinant <= 0
        safe = np.where(one_level, np.float32(1), determinant)
        scale = np.where(one_level, np.float32(0), (n * sum_qx - sum_x * sum_q) / safe)
        minimum = np.where(one_level, low, (sum_qq * sum_x - sum_q * sum_qx) / safe)
        if not lets_min_be_positive:
            through_zero = (minimum > 0) | (one_level & (low >= 0))
            scale = np.where(through_zero, sum_qx * inverse(sum_qq), scale)
            minimum = np.where(through_zero, np.float32(0), minimum)
        scale = np.maximum(scale, np.float32(0))
        off = q * scale + minimum - x
        error = _sum(off * off)
        better = error < best_error
        best_scale = np.where(better, scale, best_scale)
        best_minimum = np.where(better, minimum, best_minimum)
        best_error = np.where(better, error, best_error)
    return best_scale[:, None], best_minimum[:, None]


def fit_scale(x: F32, lowest: int) -> F32:
    """(N, B) values -> scale (N, 1) of either sign, for integers in [lowest, -lowest - 1]."""
    x = x.T  # (B, N)
    largest = np.abs(x).argmax(axis=0)[None]
    per_level = inverse(np.take_along_axis(x, largest, axis=0)[0])
    best_scale, best_gain = np.zeros_like(per_level), np.zeros_like(per_level)
    # The largest value meets the longer side, and the shorter one, where most others may lie better.
    for end, sign in ((lowest, -1), (-lowest - 1, 1)):
        for stretch in _STRETCHES:
            q = rounded(x * (np.float32(end + sign * stretch) * per_level), lowest, -lowest - 1)
            sum_qq, sum_qx = _sum(q * q), _sum(q * x)
            scale = sum_qx * inverse(sum_qq)
            gain = sum_qx * scale  # sum x^2 minus the squared error of the best scale
            better = gain > best_gain
            best_scale = np.where(better, scale, best_scale)
            best_gain = np.where(better, gain, best_gain)
    return best_scale[:, None]


def _sum(rows: Iterable[F32]) -> F32:
    """(B, N) -> (N,), from the first row to the last."""
    total: F32 = sum(rows, np.float32(0))
    return total
