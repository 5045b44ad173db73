"""One safetensors file (format: huggingface/safetensors, README, "Format").

    header length u64 | header, a JSON object | data

The header maps each tensor's name to its dtype, shape and [begin, end) in the data; the tensors tile the
data without holes, and the format says so in order that nothing can hide between them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unspool.errors import ModelFileError, UnsupportedModel
from unspool.light_dataclass import dataclass
from unspool.models.weights.base import Encoding
from unspool.models.weights.foreign_files import HEAD_BYTES, refuse_foreign
from unspool.models.weights.json_file import described, parse_json_object
from unspool.models.weights.mapped_file import map_file, shown

MAX_HEADER_BYTES = 16 << 20  # the format allows 100 MB; a file of ten thousand tensors has 2 MB
MAX_DIMENSIONS = 8

ENCODING_OF_DTYPE = {"F32": Encoding.F32, "F16": Encoding.F16, "BF16": Encoding.BF16}
# Bits a value; enough to check the extents of tensors that are never used (a vision tower, old buffers).
_DTYPE_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "I16": 16, "U16": 16, "F16": 16,
    "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E5M2FNUZ": 8, "F8_E4M3FNUZ": 8,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One line of the header, checked; `begin` counts from the start of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    n_bytes: int


class SafetensorsFile:
    """A mapped safetensors file and its header. Arrays taken from it stay valid when it is dropped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._buffer = map_file(path)
        refuse_foreign(path, self._buffer[:HEAD_BYTES])
        n_bytes = len(self._buffer)
        if n_bytes < 8:
            raise ModelFileError(path, "header length", f"needs 8 bytes, but the file has {n_bytes}")
        (n_header,) = struct.unpack_from("<Q", self._buffer)
        limit = min(MAX_HEADER_BYTES, n_bytes - 8)
        if n_header > limit:
            problem = f"is {n_header}, expected {limit} at most; the file is corrupt or cut off"
            raise ModelFileError(path, "header length", problem)
        header = parse_json_object(self._buffer[8 : 8 + n_header], path, "header", unique_keys=True)
        header.pop("__metadata__", None)
        data_start = 8 + n_header
        tensors = [_checked(path, name, item, data_start) for name, item in header.items()]
        _check_tiling(path, tensors, data_start, n_bytes)
        self.tensors = {tensor.name: tensor for tensor in tensors}

    def data(self, tensor: StoredTensor) -> npt.NDArray[np.uint8]:
        return np.frombuffer(self._buffer, np.uint8, tensor.n_bytes, tensor.begin)

    def encoding(self, tensor: StoredTensor) -> Encoding:
        """Raises UnsupportedModel when the tensor's values are of a kind that unspool does not read."""
        encoding = ENCODING_OF_DTYPE.get(tensor.dtype)
        if encoding is None:
            raise UnsupportedModel(
                f"{self.path}: tensor {shown(tensor.name)} is stored as {tensor.dtype}, which unspool does "
                "not read from safetensors; take a version of the model in F32, F16 or BF16, or a GGUF file"
            )
        return encoding


def _checked(path: Path, name: str, item: Any, data_start: int) -> StoredTensor:
    field = f"tensor {shown(name)}"
    if not name:
        raise ModelFileError(path, "header", "has a tensor without a name")
    if not isinstance(item, dict):
        raise ModelFileError(path, field, f"is {described(item)}, expected an object")
    dtype, shape, offsets = item.get("dtype"), item.get("shape"), item.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in _DTYPE_BITS:
        raise ModelFileError(
            path, f"{field} dtype", f"is {described(dtype)}, which is no known safetensors dtype"
        )
    if not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS or not _are_integers(shape, at_least=1):
        problem = f"is {described(shape)}, expected at most {MAX_DIMENSIONS} positive integers"
        raise ModelFileError(path, f"{field} shape", problem)
    if not isinstance(offsets, list) or len(offsets) != 2 or not _are_integers(offsets, at_least=0):
        raise ModelFileError(
            path, f"{field} data_offsets", f"are {described(offsets)}, expected [begin, end]"
        )
    begin, end = offsets
    n_bits = _DTYPE_BITS[dtype]
    for size in shape:
        n_bits *= size
    if n_bits != 8 * (end - begin):
        problem = (
            f"are {described(offsets)}, but {dtype} of shape {described(shape)} takes {n_bits // 8} bytes"
        )
        raise ModelFileError(path, f"{field} data_offsets", problem)
    return StoredTensor(name, dtype, tuple(shape), data_start + begin, end - begin)


def _are_integers(values: Iterable[Any], at_least: int) -> bool:
    return all(type(value) is int and at_least <= value < 1 << 63 for value in values)


def _check_tiling(path: Path, tensors: list[StoredTensor], data_start: int, file_bytes: int) -> None:
    """Sorted by place, each tensor begins where the one before it ends, and the last ends with the file."""
    end = data_start
    for tensor in sorted(tensors, key=lambda tensor: tensor.begin):
        field = f"tensor {shown(tensor.name)} data_offsets"
        stop = tensor.begin + tensor.n_bytes
        if stop > file_bytes:
            problem = f"end at byte {stop}, but the file ends at {file_bytes}; it is corrupt or cut off"
            raise ModelFileError(path, field, problem)
        if tensor.begin != end:
            raise ModelFileError(
                path, field, f"begin at byte {tensor.begin}, expected {end}, where the tensor before ends"
            )
        end = stop
    if end != file_bytes:
        raise ModelFileError(path, "data", f"has {file_bytes - end} bytes that belong to no tensor")
