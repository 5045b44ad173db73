"""Stored tensors to float32: the slow, obvious twin of every kernel that reads weights.

Each family's file describes its blocks and decodes them; here is the table and the walk over a tensor.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from unspool.models.weights.base import Encoding, Tensor
from unspool.models.weights.blocks_iq4 import decode_iq4_nl, decode_iq4_xs
from unspool.models.weights.blocks_k import decode_q2_k, decode_q3_k, decode_q4_k, decode_q5_k, decode_q6_k
from unspool.models.weights.blocks_legacy import (
    decode_q4_0,
    decode_q4_1,
    decode_q5_0,
    decode_q5_1,
    decode_q8_0,
)
from unspool.models.weights.blocks_plain import decode_bf16, decode_f16, decode_f32
from unspool.types import F32, U8

# (N * block_bytes,) bytes -> (N, block_values) float32
DECODERS: dict[Encoding, Callable[[U8], F32]] = {
    Encoding.F32: decode_f32,
    Encoding.F16: decode_f16,
    Encoding.BF16: decode_bf16,
    Encoding.Q4_0: decode_q4_0,
    Encoding.Q4_1: decode_q4_1,
    Encoding.Q5_0: decode_q5_0,
    Encoding.Q5_1: decode_q5_1,
    Encoding.Q8_0: decode_q8_0,
    Encoding.Q2_K: decode_q2_k,
    Encoding.Q3_K: decode_q3_k,
    Encoding.Q4_K: decode_q4_k,
    Encoding.Q5_K: decode_q5_k,
    Encoding.Q6_K: decode_q6_k,
    Encoding.IQ4_NL: decode_iq4_nl,
    Encoding.IQ4_XS: decode_iq4_xs,
}

_VALUES_A_STEP = 1 << 18  # intermediates stay in the cache, and small next to the result


def dequantize(tensor: Tensor) -> F32:
    """The values of a tensor as a new float32 array of `tensor.shape`.

    Equal bit for bit to the arithmetic of ggml: products and differences in float32, in its order. A
    scale that is infinite or not a number gives values that are, without a warning.
    """
    return _decode(tensor.data, tensor.encoding, tensor.shape)


def dequantize_rows(tensor: Tensor, rows: npt.ArrayLike) -> F32:
    """Rows of a matrix by index, (len(rows), n_in) float32: an embedding lookup without the whole table.

    Indices count from 0; one outside [0, n_rows) raises IndexError.
    """
    n_rows, n_columns = tensor.shape
    indices = np.asarray(rows, dtype=np.int64)
    if indices.size and not (indices.min() >= 0 and indices.max() < n_rows):
        raise IndexError(
            f"row {indices.min()} to {indices.max()} of {tensor.name}, which has rows 0 to {n_rows - 1}"
        )
    table = tensor.data.reshape(n_rows, -1)  # (n_rows, row_bytes)
    return _decode(table[indices].reshape(-1), tensor.encoding, (len(indices), n_columns))


def _decode(data: U8, encoding: Encoding, shape: tuple[int, ...]) -> F32:
    values = np.empty(shape, dtype=np.float32)
    blocks = values.reshape(-1, encoding.block_values)  # (N, block_values)
    n_blocks = len(blocks)
    assert data.size == n_blocks * encoding.block_bytes, (data.size, shape, encoding)
    decode = DECODERS[encoding]
    step = _VALUES_A_STEP // encoding.block_values
    with np.errstate(all="ignore"):
        for start in range(0, n_blocks, step):
            stop = min(start + step, n_blocks)
            blocks[start:stop] = decode(data[start * encoding.block_bytes : stop * encoding.block_bytes])
    return values
