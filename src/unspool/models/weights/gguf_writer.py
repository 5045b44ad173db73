"""Writes GGUF files of version 3 (format: ggml-org/ggml, docs/gguf.md); `gguf` has the picture of one."""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from unspool.errors import ModelFileError, reason
from unspool.light_dataclass import dataclass
from unspool.models.weights.base import Encoding, Tensor
from unspool.models.weights.ggml_types import ENCODING_OF_TYPE
from unspool.models.weights.gguf import DEFAULT_ALIGNMENT, MAGIC

_VERSION = 3
_U32, _F32, _BOOL, _STRING, _ARRAY = 4, 6, 7, 8, 9  # value types
_ARRAY_TYPES: Final[Mapping[str, int]] = MappingProxyType({"<i4": 5, "<f4": _F32, "|b1": _BOOL})
_TYPES = {encoding: number for number, encoding in ENCODING_OF_TYPE.items()}


@dataclass(frozen=True, slots=True)
class Planned:
    """A tensor that is still to come."""

    name: str
    shape: tuple[int, ...]
    encoding: Encoding

    @property
    def n_bytes(self) -> int:
        n_values = 1
        for size in self.shape:
            n_values *= size
        return n_values // self.encoding.block_values * self.encoding.block_bytes


Value = bool | int | float | str | Sequence[str] | npt.NDArray[np.int32 | np.float32 | np.bool_]


def pair(key: str, value: Value) -> bytes:
    """The bytes of a metadata pair: a whole number in 32 bits without a sign, a fraction in float32, an array
    as what it holds."""
    return _text(key) + _value(value)


def _value(value: Value) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", _BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", _U32, value)
    if isinstance(value, float):
        return struct.pack("<If", _F32, value)
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _text(value)
    if isinstance(value, np.ndarray):
        head = struct.pack("<IIQ", _ARRAY, _ARRAY_TYPES[value.dtype.str], len(value))
        return head + value.tobytes()
    return struct.pack("<IIQ", _ARRAY, _STRING, len(value)) + b"".join(map(_text, value))


def write_gguf(
    path: Path,
    pairs: Sequence[bytes],
    planned: Sequence[Planned],
    tensors: Iterable[Tensor],
    alignment: int = DEFAULT_ALIGNMENT,
) -> None:
    """Write metadata pairs as their bytes, the directory, and the tensors as they come, in the planned order.

    The file appears under its name when it is whole, or not at all. Raises ModelFileError where the disk
    or the folder does not take it.
    """
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            try:
                head = MAGIC + struct.pack("<IQQ", _VERSION, len(planned), len(pairs)) + b"".join(pairs)
                offset = 0
                for plan in planned:
                    dims = plan.shape[::-1]
                    head += _text(plan.name)
                    head += struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, _TYPES[plan.encoding], offset)
                    offset += -(-plan.n_bytes // alignment) * alignment
                file.write(head + bytes(-len(head) % alignment))
                for plan, tensor in zip(planned, tensors, strict=True):
                    found = (tensor.name, tensor.shape, tensor.encoding, tensor.data.nbytes)
                    assert found == (plan.name, plan.shape, plan.encoding, plan.n_bytes), (plan, found)
                    file.write(tensor.data.data)
                    file.write(bytes(-plan.n_bytes % alignment))
                file.flush()
                os.chmod(file.name, 0o644)
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError as problem:
        raise ModelFileError(
            path, "file", f"cannot be written: {reason(problem)}; check the folder and the disk"
        ) from None


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data
