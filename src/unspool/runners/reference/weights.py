"""The reference runner's weights: tensors of a model, decoded to the type of its arithmetic."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from unspool.models.weights import WeightSource, dequantize, dequantize_rows
from unspool.types import I32

Array: TypeAlias = npt.NDArray[Any]  # of the runner's dtype
_ALIGNMENT_BYTES = 64


class Weights:
    """Tensors by name. Kept once they are decoded, unless `keep` is false."""

    def __init__(self, source: WeightSource, dtype: np.dtype[Any], *, keep: bool) -> None:
        self._source = source
        self._dtype = dtype
        self._keep = keep
        self._kept: dict[str, Array] = {}

    def whole(self, name: str) -> Array:
        found = self._kept.get(name)
        if found is None:
            found = aligned(dequantize(self._source.tensor(name)), self._dtype)
            if self._keep:
                self._kept[name] = found
        return found

    def rows(self, name: str, token_ids: I32) -> Array:
        """(rows, width): only the rows of the table that are asked for are decoded."""
        return dequantize_rows(self._source.tensor(name), token_ids).astype(self._dtype)

    def forget(self) -> None:
        self._kept.clear()


def aligned(values: npt.ArrayLike, dtype: np.dtype[Any]) -> Array:
    """A contiguous copy that begins on a cache line: BLAS may sum in another order where it does not."""
    values = np.asarray(values)
    n_bytes = values.size * dtype.itemsize
    memory = np.empty(n_bytes + _ALIGNMENT_BYTES, np.uint8)
    offset = -memory.ctypes.data % _ALIGNMENT_BYTES
    copy: Array = memory[offset : offset + n_bytes].view(dtype).reshape(values.shape)
    copy[...] = values
    return copy
