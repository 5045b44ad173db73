"""The first family of ggml blocks: 32 values, one scale, perhaps one offset.

Layouts are those of block_q4_0 ... block_q8_0 in ggml-common.h. In the 4- and 5-bit kinds byte i holds
value i in its low nibble and value i + 16 in its high one; the fifth bit of value i is bit i of `high`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unspool.types import F32, U8

Q4_0 = np.dtype([("scale", "<f2"), ("nibbles", "u1", 16)])
Q4_1 = np.dtype([("scale", "<f2"), ("minimum", "<f2"), ("nibbles", "u1", 16)])
Q5_0 = np.dtype([("scale", "<f2"), ("high", "u1", 4), ("nibbles", "u1", 16)])
Q5_1 = np.dtype([("scale", "<f2"), ("minimum", "<f2"), ("high", "u1", 4), ("nibbles", "u1", 16)])
Q8_0 = np.dtype([("scale", "<f2"), ("values", "i1", 32)])


def split_nibbles(packed: U8) -> U8:
    """(N, n) bytes -> (N, 2 n) values of 4 bits: all low nibbles, then all high ones."""
    return np.concatenate([packed & np.uint8(15), packed >> np.uint8(4)], axis=1)


def _five_bits(nibbles: U8, high: U8) -> U8:
    """(N, 16) bytes and (N, 4) bytes of fifth bits -> (N, 32) values of 5 bits."""
    fifth: U8 = np.unpackbits(high, axis=1, bitorder="little") << np.uint8(4)
    return split_nibbles(nibbles) | fifth


def _column(field: npt.NDArray[np.float16]) -> F32:
    """(N,) scales or minimums -> (N, 1) float32."""
    return field.astype(np.float32)[:, None]


def decode_q4_0(data: U8) -> F32:
    """scale * (q - 8)."""
    blocks = data.view(Q4_0)
    quants = split_nibbles(blocks["nibbles"]).astype(np.float32)
    quants -= np.float32(8)
    return _column(blocks["scale"]) * quants


def decode_q4_1(data: U8) -> F32:
    """scale * q + minimum."""
    blocks = data.view(Q4_1)
    quants = split_nibbles(blocks["nibbles"]).astype(np.float32)
    values: F32 = _column(blocks["scale"]) * quants + _column(blocks["minimum"])
    return values


def decode_q5_0(data: U8) -> F32:
    """scale * (q - 16)."""
    blocks = data.view(Q5_0)
    quants = _five_bits(blocks["nibbles"], blocks["high"]).astype(np.float32)
    quants -= np.float32(16)
    return _column(blocks["scale"]) * quants


def decode_q5_1(data: U8) -> F32:
    """scale * q + minimum."""
    blocks = data.view(Q5_1)
    quants = _five_bits(blocks["nibbles"], blocks["high"]).astype(np.float32)
    values: F32 = _column(blocks["scale"]) * quants + _column(blocks["minimum"])
    return values


def decode_q8_0(data: U8) -> F32:
    """scale * q."""
    blocks = data.view(Q8_0)
    quants: F32 = blocks["values"].astype(np.float32)
    return _column(blocks["scale"]) * quants
