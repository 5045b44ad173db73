"""Values to the first family of ggml blocks: the way back from blocks_legacy.

Scale and minimum are those of `fit`, rounded to float16; the integers are then chosen for what is stored.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unspool.models.weights.blocks_legacy import Q4_0, Q4_1, Q5_0, Q5_1, Q8_0
from unspool.models.weights.fast_fit import fit_line, fit_scale
from unspool.models.weights.fit import inverse, rounded
from unspool.types import F32, U8


def _half(values: F32) -> tuple[npt.NDArray[np.float16], F32]:
    """(N, 1) as float16, for the block and as what a reader will see."""
    stored = values.astype(np.float16)
    return stored[:, 0], stored.astype(np.float32)


def _joined_nibbles(q: U8) -> U8:
    """(N, 32) -> (N, 16): value i in the low nibble of byte i, value i + 16 in its high one."""
    joined: U8 = (q[:, :16] & np.uint8(15)) | (q[:, 16:] << np.uint8(4))
    return joined


def _fifth_bits(q: U8) -> U8:
    return np.packbits(q >> np.uint8(4), axis=1, bitorder="little")


def _bytes(blocks: npt.NDArray[np.void]) -> U8:
    return blocks.view(np.uint8)


def encode_q8_0(x: F32) -> U8:
    """(N, 32) float32 -> N blocks of 34 bytes. The largest magnitude becomes 127: at 8 bits a search gains
    nothing worth its time."""
    blocks = np.zeros(len(x), Q8_0)
    blocks["scale"], scale = _half(np.abs(x).max(axis=1, keepdims=True) / np.float32(127))
    blocks["values"] = rounded(x * inverse(scale), -127, 127).astype(np.int8)
    return _bytes(blocks)


def _signed(x: F32, dtype: np.dtype[np.void], n_bits: int) -> tuple[npt.NDArray[np.void], U8]:
    half = 1 << (n_bits - 1)
    blocks = np.zeros(len(x), dtype)
    blocks["scale"], scale = _half(fit_scale(x, -half))
    q = (rounded(x * inverse(scale), -half, half - 1) + np.float32(half)).astype(np.uint8)
    blocks["nibbles"] = _joined_nibbles(q)
    return blocks, q


def _offset(x: F32, dtype: np.dtype[np.void], n_bits: int) -> tuple[npt.NDArray[np.void], U8]:
    highest = (1 << n_bits) - 1
    blocks = np.zeros(len(x), dtype)
    found_scale, found_minimum = fit_line(x, highest, lets_min_be_positive=True)
    blocks["scale"], scale = _half(found_scale)
    blocks["minimum"], minimum = _half(found_minimum)
    q = rounded((x - minimum) * inverse(scale), 0, highest).astype(np.uint8)
    blocks["nibbles"] = _joined_nibbles(q)
    return blocks, q


def encode_q4_0(x: F32) -> U8:
    """(N, 32) float32 -> N blocks of 18 bytes."""
    return _bytes(_signed(x, Q4_0, 4)[0])


def encode_q4_1(x: F32) -> U8:
    """(N, 32) float32 -> N blocks of 20 bytes."""
    return _bytes(_offset(x, Q4_1, 4)[0])


def encode_q5_0(x: F32) -> U8:
    """(N, 32) float32 -> N blocks of 22 bytes."""
    blocks, q = _signed(x, Q5_0, 5)
    blocks["high"] = _fifth_bits(q)
    return _bytes(blocks)


def encode_q5_1(x: F32) -> U8:
    """(N, 32) float32 -> N blocks of 24 bytes."""
    blocks, q = _offset(x, Q5_1, 5)
    blocks["high"] = _fifth_bits(q)
    return _bytes(blocks)
