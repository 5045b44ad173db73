"""Values to blocks of the "k" family: the way back from blocks_k, for the kinds of 4, 5 and 6 bits.

Each group's scale and minimum are those of `fit`; the largest of a block sets its float16 scales, the others
are rounded to the block's small integers, and the quants are then chosen for what is stored.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unspool.models.weights.blocks_k import Q4_K, Q5_K, Q6_K
from unspool.models.weights.fast_fit import fit_line, fit_scale
from unspool.models.weights.fit import inverse, rounded
from unspool.types import F32, U8

_ONE, _TWO, _FOUR, _SIX = np.uint8(1), np.uint8(2), np.uint8(4), np.uint8(6)


def _small(values: F32, highest: int) -> tuple[npt.NDArray[np.float16], U8, F32]:
    """(N, 8) values >= 0 -> the float16 unit (N,), how many of it each is (N, 8), and what that makes."""
    unit = (values.max(axis=1, keepdims=True) / np.float32(highest)).astype(np.float16)
    wide = unit.astype(np.float32)
    counts = rounded(values * inverse(wide), 0, highest)
    return unit[:, 0], counts.astype(np.uint8), wide * counts


def _packed_six(scales: U8, minimums: U8) -> U8:
    """Two times (N, 8) numbers of 6 bits -> (N, 12) bytes; blocks_k has the order."""
    first = scales[:, :4] | (scales[:, 4:] >> _FOUR << _SIX)
    second = minimums[:, :4] | (minimums[:, 4:] >> _FOUR << _SIX)
    third = (scales[:, 4:] & np.uint8(15)) | (minimums[:, 4:] << _FOUR)
    return np.concatenate([first, second, third], axis=1)


def _in_groups(x: F32, dtype: np.dtype[np.void], n_bits: int) -> tuple[npt.NDArray[np.void], U8]:
    """Blocks with scales and low nibbles, and the quants (N, 8, 32)."""
    highest = (1 << n_bits) - 1
    blocks = np.zeros(len(x), dtype)
    scale, minimum = fit_line(x.reshape(-1, 32), highest, lets_min_be_positive=False)
    blocks["scale"], scales, scale = _small(scale.reshape(-1, 8), 63)
    blocks["minimum"], minimums, minus = _small(-minimum.reshape(-1, 8), 63)
    blocks["scales"] = _packed_six(scales, minimums)
    q = rounded((x.reshape(-1, 8, 32) + minus[:, :, None]) * inverse(scale)[:, :, None], 0, highest).astype(
        np.uint8
    )
    low = q & np.uint8(15)
    blocks["nibbles"] = low[:, 0::2] | (low[:, 1::2] << _FOUR)
    return blocks, q


def encode_q4_k(x: F32) -> U8:
    """(N, 256) float32 -> N blocks of 144 bytes."""
    return _in_groups(x, Q4_K, 4)[0].view(np.uint8)


def encode_q5_k(x: F32) -> U8:
    """(N, 256) float32 -> N blocks of 176 bytes."""
    blocks, q = _in_groups(x, Q5_K, 5)
    # (N, 32): bit g of byte i is the fifth of value i of group g
    blocks["high"] = np.packbits(q >> _FOUR, axis=1, bitorder="little")[:, 0]
    return blocks.view(np.uint8)


def encode_q6_k(x: F32) -> U8:
    """(N, 256) float32 -> N blocks of 210 bytes."""
    blocks = np.zeros(len(x), Q6_K)
    scales = fit_scale(x.reshape(-1, 16), -32).reshape(-1, 16)
    largest = np.take_along_axis(scales, np.abs(scales).argmax(axis=1)[:, None], axis=1)
    unit = (largest / np.float32(-128)).astype(np.float16)
    wide = unit.astype(np.float32)
    counts = rounded(scales * inverse(wide), -128, 127)
    blocks["scale"], blocks["scales"] = unit[:, 0], counts.astype(np.int8)
    steps = inverse(wide * counts)[:, :, None]
    q = (rounded(x.reshape(-1, 16, 16) * steps, -32, 31) + np.float32(32)).astype(np.uint8)
    halves = q.reshape(-1, 2, 4, 32)  # of 128 values: four groups of 32
    low = (halves & np.uint8(15)).reshape(-1, 2, 2, 64)
    blocks["low"] = low[:, :, 0] | (low[:, :, 1] << _FOUR)
    pairs = halves >> _FOUR << np.array([0, 2, 4, 6], np.uint8)[:, None]
    blocks["high"] = np.bitwise_or.reduce(pairs, axis=2)
    return blocks.view(np.uint8)
