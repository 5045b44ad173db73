"""Values stored one by one: float32, float16 and bfloat16 (the upper half of a float32)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unspool.types import F32, U8


def decode_f32(data: U8) -> F32:
    return data.view("<f4").astype(np.float32).reshape(-1, 1)


def decode_f16(data: U8) -> F32:
    return data.view("<f2").astype(np.float32).reshape(-1, 1)


def decode_bf16(data: U8) -> F32:
    bits = data.view("<u2").astype(np.uint32) << np.uint32(16)
    values: F32 = bits.view(np.float32).reshape(-1, 1)
    return values


def encode_f32(x: F32) -> U8:
    return _bytes(x.astype("<f4"))


def encode_f16(x: F32) -> U8:
    return _bytes(x.astype("<f2"))


def encode_bf16(x: F32) -> U8:
    """To the nearest, of two as near to the even one; for values that are finite."""
    bits = x.astype("<f4").view("<u4")
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    return _bytes(((bits + np.uint32(0x7FFF) + odd) >> np.uint32(16)).astype("<u2"))


def _bytes(values: npt.NDArray[np.generic]) -> U8:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)
