"""The "k" family of ggml blocks: 256 values in groups of 16 or 32, each group with a small integer scale.

Layouts are those of block_q2_K ... block_q6_K in ggml-common.h. N blocks are decoded at once; groups are
numbered in the order of the values, and `q` always has the shape (N, groups, values of a group).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unspool.types import F32, U8

Q2_K = np.dtype([("scales", "u1", 16), ("low", "u1", (2, 32)), ("scale", "<f2"), ("minimum", "<f2")])
Q3_K = np.dtype([("high", "u1", 32), ("low", "u1", (2, 32)), ("scales", "u1", 12), ("scale", "<f2")])
Q4_K = np.dtype([("scale", "<f2"), ("minimum", "<f2"), ("scales", "u1", 12), ("nibbles", "u1", (4, 32))])
Q5_K = np.dtype(
    [
        ("scale", "<f2"),
        ("minimum", "<f2"),
        ("scales", "u1", 12),
        ("high", "u1", 32),
        ("nibbles", "u1", (4, 32)),
    ]
)
Q6_K = np.dtype([("low", "u1", (2, 64)), ("high", "u1", (2, 32)), ("scales", "i1", 16), ("scale", "<f2")])

_PAIR_SHIFTS = np.array([0, 2, 4, 6], dtype=np.uint8)[:, None]  # four 2-bit values of a byte
_NIBBLE_SHIFTS = np.array([0, 4], dtype=np.uint8)[:, None]
_BIT_SHIFTS = np.arange(8, dtype=np.uint8)[:, None]


def _bit_pairs(packed: U8) -> U8:
    """(N, 2, 32) bytes -> (N, 8, 32): half h holds groups 4h .. 4h + 3, lowest bits first."""
    pairs: U8 = (packed[:, :, None, :] >> _PAIR_SHIFTS) & np.uint8(3)
    return pairs.reshape(-1, 8, 32)


def _nibble_groups(packed: U8) -> U8:
    """(N, 4, 32) bytes -> (N, 8, 32): quarter c holds groups 2c (low nibbles) and 2c + 1."""
    nibbles: U8 = (packed[:, :, None, :] >> _NIBBLE_SHIFTS) & np.uint8(15)
    return nibbles.reshape(-1, 8, 32)


def _bit_planes(packed: U8) -> U8:
    """(N, 32) bytes -> (N, 8, 32): bit g of byte i belongs to value i of group g."""
    bits: U8 = (packed[:, None, :] >> _BIT_SHIFTS) & np.uint8(1)
    return bits


def _times(scale: npt.NDArray[np.float16], factors: npt.NDArray[np.uint8] | npt.NDArray[np.int8]) -> F32:
    """(N,) scales times (N, groups) small integers -> (N, groups, 1)."""
    return (scale.astype(np.float32)[:, None] * factors.astype(np.float32))[:, :, None]


def _six_bit_scales(packed: U8) -> tuple[U8, U8]:
    """(N, 12) bytes of Q4_K and Q5_K -> scales and minimums, both (N, 8), 6 bits each.

    Bytes 0-3 and 4-7 hold the first four scales and minimums in their low 6 bits, and the upper two bits
    of the last four in their top two; bytes 8-11 hold the low nibbles of the last four.
    """
    first, second, third = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = np.concatenate([first & 63, (third & 15) | (first >> 6 << 4)], axis=1)
    minimums = np.concatenate([second & 63, (third >> 4) | (second >> 6 << 4)], axis=1)
    return scales, minimums


def decode_q2_k(data: U8) -> F32:
    """scale * s * q - minimum * m; 16 groups of 16, s and m the nibbles of one byte."""
    blocks = data.view(Q2_K)
    q: F32 = _bit_pairs(blocks["low"]).reshape(-1, 16, 16).astype(np.float32)
    scales = blocks["scales"]
    q *= _times(blocks["scale"], scales & 15)
    q -= _times(blocks["minimum"], scales >> 4)
    return q.reshape(-1, 256)


def decode_q3_k(data: U8) -> F32:
    """scale * (s - 32) * (q - 4); 16 groups of 16, s of 6 bits.

    Scale g has its low nibble in byte g % 8 (the high nibble of it for g >= 8) and its upper two bits in
    byte 8 + g % 4, pair g // 4.
    """
    blocks = data.view(Q3_K)
    q = _bit_pairs(blocks["low"]) | (_bit_planes(blocks["high"]) << 2)
    packed = blocks["scales"]
    low = ((packed[:, None, :8] >> _NIBBLE_SHIFTS) & 15).reshape(-1, 16)
    upper = ((packed[:, None, 8:] >> _PAIR_SHIFTS) & 3).reshape(-1, 16)
    scales = (low | (upper << 4)).view(np.int8) - np.int8(32)
    values: F32 = q.reshape(-1, 16, 16).astype(np.float32) - np.float32(4)
    values *= _times(blocks["scale"], scales)
    return values.reshape(-1, 256)


def decode_q4_k(data: U8) -> F32:
    """scale * s * q - minimum * m; 8 groups of 32."""
    blocks = data.view(Q4_K)
    scales, minimums = _six_bit_scales(blocks["scales"])
    q = _nibble_groups(blocks["nibbles"]).astype(np.float32)
    q *= _times(blocks["scale"], scales)
    q -= _times(blocks["minimum"], minimums)
    return q.reshape(-1, 256)


def decode_q5_k(data: U8) -> F32:
    """scale * s * q - minimum * m; 8 groups of 32, the fifth bits in bit planes."""
    blocks = data.view(Q5_K)
    scales, minimums = _six_bit_scales(blocks["scales"])
    q = (_nibble_groups(blocks["nibbles"]) | (_bit_planes(blocks["high"]) << 4)).astype(np.float32)
    q *= _times(blocks["scale"], scales)
    q -= _times(blocks["minimum"], minimums)
    return q.reshape(-1, 256)


def decode_q6_k(data: U8) -> F32:
    """scale * s * (q - 32); 16 groups of 16, s a signed byte.

    Half h holds 128 values: the low nibbles of its 64 bytes, then the high nibbles; the upper two bits are
    packed as in Q2_K.
    """
    blocks = data.view(Q6_K)
    low = ((blocks["low"][:, :, None, :] >> _NIBBLE_SHIFTS) & 15).reshape(-1, 8, 32)
    q = low | (_bit_pairs(blocks["high"]) << 4)
    values: F32 = q.reshape(-1, 16, 16).astype(np.float32) - np.float32(32)
    values *= _times(blocks["scale"], blocks["scales"])
    return values.reshape(-1, 256)
