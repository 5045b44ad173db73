"""Float weights to quantized ones: each block by a least-squares search (`fit`), in threads.

What a block stores is an approximation. For weights that are normally distributed the root mean square of
the error, as a part of that of the weights, is what `RELATIVE_ERROR` says; a test holds each kind to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Final

import numpy as np

from unspool.errors import ModelFileError
from unspool.models.weights.base import Encoding, Tensor
from unspool.models.weights.blocks_plain import encode_bf16, encode_f16, encode_f32
from unspool.models.weights.dequantize import DECODERS
from unspool.models.weights.encode_k import encode_q4_k, encode_q5_k, encode_q6_k
from unspool.models.weights.encode_legacy import (
    encode_q4_0,
    encode_q4_1,
    encode_q5_0,
    encode_q5_1,
    encode_q8_0,
)
from unspool.thread_count import usual_threads
from unspool.types import F32, U8

# (N, block_values) float32 -> the bytes of N blocks
ENCODERS: Final[Mapping[Encoding, Callable[[F32], U8]]] = MappingProxyType(
    {
        Encoding.Q4_0: encode_q4_0,
        Encoding.Q4_1: encode_q4_1,
        Encoding.Q5_0: encode_q5_0,
        Encoding.Q5_1: encode_q5_1,
        Encoding.Q8_0: encode_q8_0,
        Encoding.Q4_K: encode_q4_k,
        Encoding.Q5_K: encode_q5_k,
        Encoding.Q6_K: encode_q6_k,
    }
)
# Values one by one, which nothing is fitted for.
_PLAIN: Final[Mapping[Encoding, Callable[[F32], U8]]] = MappingProxyType(
    {Encoding.F32: encode_f32, Encoding.F16: encode_f16, Encoding.BF16: encode_bf16}
)

_MOST: Final = 60_000.0  # of a magnitude, near the end of float16, which scales are
_WIDE: Final[Mapping[Encoding, float]] = MappingProxyType({Encoding.F32: math.inf, Encoding.BF16: 3.38e38})

RELATIVE_ERROR: Final[Mapping[Encoding, float]] = MappingProxyType(
    {
        Encoding.F16: 0.00021,
        Encoding.BF16: 0.00167,
        Encoding.Q4_0: 0.083,
        Encoding.Q4_1: 0.072,
        Encoding.Q5_0: 0.041,
        Encoding.Q5_1: 0.035,
        Encoding.Q8_0: 0.0055,
        Encoding.Q4_K: 0.073,
        Encoding.Q5_K: 0.037,
        Encoding.Q6_K: 0.0175,
    }
)

_VALUES_A_STEP: Final = 1 << 17  # what one thread works on stays in its cache


def quantize(tensor: Tensor, encoding: Encoding, n_threads: int | None = None) -> Tensor:
    """The tensor in another encoding, whatever its own; rows must divide into the encoding's blocks.

    The result depends on the values alone. Raises ModelFileError where a value is infinite, not a number,
    or larger than what the encoding holds.
    """
    stored, n_block = tensor.encoding, encoding.block_values
    assert tensor.shape[-1] % n_block == 0, (tensor.name, tensor.shape, encoding)
    encode, most = ENCODERS.get(encoding) or _PLAIN[encoding], _WIDE.get(encoding, _MOST)
    n_values = int(np.prod(tensor.shape))
    # A piece is whole blocks of both encodings: every block has a power of two of values.
    n_whole = max(n_block, stored.block_values)
    step = _VALUES_A_STEP // n_whole * n_whole
    out = np.empty(_bytes_of(encoding, n_values), np.uint8)

    def work(start: int) -> None:
        stop = min(start + step, n_values)
        data = tensor.data[_bytes_of(stored, start) : _bytes_of(stored, stop)]
        with np.errstate(all="ignore"):
            values = DECODERS[stored](np.ascontiguousarray(data)).reshape(-1, n_block)
            _require_finite(tensor.name, values)
            if (largest := float(np.abs(values).max())) > most:
                problem = f"go up to {largest:g}, and {encoding.label} takes {most:g} at most; try bf16, f32"
                raise ModelFileError(tensor.name, "values", problem)
            out[_bytes_of(encoding, start) : _bytes_of(encoding, stop)] = encode(values)

    with ThreadPoolExecutor(n_threads or usual_threads()) as pool:
        list(pool.map(work, range(0, n_values, step)))
    return Tensor(tensor.name, tensor.shape, encoding, out)


def require_finite(tensor: Tensor) -> None:
    """Raises ModelFileError where a value of a tensor that stays as it is is infinite or not a number."""
    stored, n_values = tensor.encoding, int(np.prod(tensor.shape))
    for start in range(0, n_values, _VALUES_A_STEP):
        stop = min(start + _VALUES_A_STEP, n_values)
        data = tensor.data[_bytes_of(stored, start) : _bytes_of(stored, stop)]
        with np.errstate(all="ignore"):
            _require_finite(tensor.name, DECODERS[stored](np.ascontiguousarray(data)))


def _require_finite(name: str, values: F32) -> None:
    if not np.isfinite(values).all():
        raise ModelFileError(name, "values", "are infinite or not numbers; fetch the model again")


def _bytes_of(encoding: Encoding, n_values: int) -> int:
    return n_values // encoding.block_values * encoding.block_bytes
