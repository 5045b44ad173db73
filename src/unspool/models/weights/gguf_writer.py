"""Writes GGUF files of version 3 (format: ggml-org/ggml, docs/gguf.md); `gguf` has the picture of one."""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from unspool.errors import ModelFileError, reason
from unspool.light_dataclass import dataclass
from unspool.models.weights.base import Encoding, Tensor
from unspool.models.weights.ggml_types import ENCODING_OF_TYPE
from unspool.models.weights.gguf import DEFAULT_ALIGNMENT, MAGIC

_VERSION = 3
_U32 = 4  # the value type
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


def u32_pair(key: str, value: int) -> bytes:
    """The bytes of a metadata pair whose value is a whole number."""
    return _text(key) + struct.pack("<II", _U32, value)


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
