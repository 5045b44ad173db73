"""Four-bit blocks whose sixteen levels are not evenly spaced.

Layouts are those of block_iq4_nl and block_iq4_xs in ggml-common.h, the levels its kvalues_iq4nl.
"""

from __future__ import annotations

import numpy as np

from unspool.models.weights.blocks_legacy import split_nibbles
from unspool.types import F32, U8

LEVELS = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], dtype=np.float32
)  # (16,)

IQ4_NL = np.dtype([("scale", "<f2"), ("nibbles", "u1", 16)])
IQ4_XS = np.dtype(
    [("scale", "<f2"), ("scales_high", "<u2"), ("scales_low", "u1", 4), ("nibbles", "u1", (8, 16))]
)


def decode_iq4_nl(data: U8) -> F32:
    """scale * LEVELS[q]; 32 values a block."""
    blocks = data.view(IQ4_NL)
    values: F32 = LEVELS[split_nibbles(blocks["nibbles"])]  # (N, 32)
    values *= blocks["scale"].astype(np.float32)[:, None]
    return values


def decode_iq4_xs(data: U8) -> F32:
    """scale * (s - 32) * LEVELS[q]; 8 groups of 32, s of 6 bits.

    Scale g has its low nibble in byte g // 2 (the high nibble for odd g) and its upper two bits in bits
    2g and 2g + 1 of `scales_high`.
    """
    blocks = data.view(IQ4_XS)
    low = (blocks["scales_low"][:, :, None] >> np.array([0, 4], dtype=np.uint8)) & 15  # (N, 4, 2)
    high = (blocks["scales_high"][:, None] >> np.arange(0, 16, 2, dtype=np.uint16)) & 3  # (N, 8)
    scales = (low.reshape(-1, 8) | (high << 4)).astype(np.float32) - np.float32(32)
    steps = blocks["scale"].astype(np.float32)[:, None] * scales  # (N, 8)
    nibbles = split_nibbles(blocks["nibbles"].reshape(-1, 16))  # (N * 8, 32)
    values: F32 = steps.reshape(-1, 1) * LEVELS[nibbles]
    return values.reshape(-1, 256)
