"""Values stored one by one: float32, float16 and bfloat16 (the upper half of a float32)."""

from __future__ import annotations

import numpy as np

from unspool.types import F32, U8


def decode_f32(data: U8) -> F32:
    return data.view("<f4").astype(np.float32).reshape(-1, 1)


def decode_f16(data: U8) -> F32:
    return data.view("<f2").astype(np.float32).reshape(-1, 1)


def decode_bf16(data: U8) -> F32:
    bits = data.view("<u2").astype(np.uint32) << np.uint32(16)
    values: F32 = bits.view(np.float32).reshape(-1, 1)
    return values
