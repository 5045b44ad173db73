"""GGUF files, versions 2 and 3, little-endian (format: ggml-org/ggml, docs/gguf.md).

    magic "GGUF" | version u32 | n_tensors u64 | n_keys u64 | pairs | tensor directory | padding | data

A directory entry is a name, up to four dimensions (fastest first, so a shape is read backwards), a ggml
type and an offset from the start of the data. Everything is checked when the file is opened; a tensor is
then a view of the mapped file, and asking for one cannot fail for reasons of format.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from unspool.errors import UnsupportedModel
from unspool.light_dataclass import dataclass
from unspool.models.weights.base import Encoding, Tensor
from unspool.models.weights.ggml_types import ENCODING_OF_TYPE, REFUSED_TYPES
from unspool.models.weights.gguf_cursor import Cursor
from unspool.models.weights.gguf_metadata import read_metadata, read_pairs
from unspool.models.weights.mapped_file import map_file, shown

MAGIC = b"GGUF"
MAX_TENSORS = 1 << 17
MAX_TENSOR_NAME_BYTES = 1024  # the format says 64; some writers exceed it
MAX_DIMENSIONS = 4
DEFAULT_ALIGNMENT = 32
_SMALLEST_ENTRY_BYTES = 8 + 1 + 4 + 8 + 4 + 8  # name length, a name of one byte, one dimension, type, offset


@dataclass(frozen=True, slots=True)
class _Entry:
    """One line of the tensor directory."""

    name: str
    shape: tuple[int, ...]
    encoding: Encoding
    offset: int  # from the start of the data section
    n_bytes: int


class GgufSource:
    """An open GGUF file. Use as a context manager, or call `close`; tensors already taken stay valid."""

    format = "gguf"

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        buffer = map_file(self.path)
        cursor = Cursor(self.path, buffer)
        n_tensors, n_keys = _read_preamble(cursor)
        self.metadata: Mapping[str, Any] = read_metadata(cursor, n_keys)
        _refuse_split(self.path, self.metadata)
        alignment = _alignment(cursor, self.metadata)
        entries = _read_directory(cursor, n_tensors, alignment)
        self._data_start = -(-cursor.position // alignment) * alignment
        _check_extents(cursor, entries, len(buffer) - self._data_start)
        self._entries = {entry.name: entry for entry in entries}
        self._buffer: mmap.mmap | None = buffer

    def names(self) -> Sequence[str]:
        return tuple(self._entries)

    def pairs(self) -> dict[str, bytes]:
        """Each metadata key with the bytes of its pair, for who writes them to another file."""
        if self._buffer is None:
            raise ValueError(f"{self.path} is closed")
        cursor = Cursor(self.path, self._buffer)
        _, n_keys = _read_preamble(cursor)
        return {key: self._buffer[place] for key, _, place in read_pairs(cursor, n_keys)}

    def tensor(self, name: str) -> Tensor:
        entry = self._entries.get(name)
        if entry is None:
            raise UnsupportedModel(f"{self.path}: has no tensor {shown(name)}, which this model needs")
        if self._buffer is None:
            raise ValueError(f"{self.path} is closed")
        data = np.frombuffer(self._buffer, np.uint8, entry.n_bytes, self._data_start + entry.offset)
        return Tensor(name, entry.shape, entry.encoding, data)

    stored = tensor  # of what is converted the two differ

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def close(self) -> None:
        self._buffer = None

    def __enter__(self) -> GgufSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _read_preamble(cursor: Cursor) -> tuple[int, int]:
    """Check magic and version; return (n_tensors, n_keys)."""
    magic = cursor.buffer[: cursor.take(4, "magic") + 4]
    if magic != MAGIC:
        raise cursor.error("magic", f"is {magic!r}, expected {MAGIC!r}; this is not a GGUF file")
    version = cursor.u32("version")
    if version not in (2, 3):
        if version and not version & 0xFFFF:
            problem = (
                "is big-endian; unspool reads little-endian GGUF: convert the model again without --bigendian"
            )
        else:
            problem = f"is GGUF version {version}; unspool reads versions 2 and 3: convert the model again"
        raise UnsupportedModel(f"{cursor.path}: {problem}")
    return cursor.u64("tensor_count"), cursor.u64("metadata_kv_count")


def _refuse_split(path: Path, metadata: Mapping[str, Any]) -> None:
    n_parts = metadata.get("split.count", 1)
    if isinstance(n_parts, int) and n_parts > 1:
        raise UnsupportedModel(
            f"{path}: split.count: is one of {n_parts} parts; unspool reads whole files: "
            "join the parts with llama-gguf-split --merge"
        )


def _alignment(cursor: Cursor, metadata: Mapping[str, Any]) -> int:
    """Of the data section and of every tensor in it, in bytes."""
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if type(alignment) is not int or not 8 <= alignment <= 1 << 16 or alignment & (alignment - 1):
        shown_value = shown(str(alignment))
        raise cursor.error("general.alignment", f"is {shown_value}, expected a power of two from 8 to 65536")
    return alignment


def _read_directory(cursor: Cursor, n_tensors: int, alignment: int) -> list[_Entry]:
    if n_tensors > MAX_TENSORS or n_tensors * _SMALLEST_ENTRY_BYTES > cursor.end - cursor.position:
        limit = min(MAX_TENSORS, (cursor.end - cursor.position) // _SMALLEST_ENTRY_BYTES)
        raise cursor.error("tensor_count", f"is {n_tensors}, more than the {limit} this file can hold")
    entries = [_read_entry(cursor, index, alignment) for index in range(n_tensors)]
    seen: set[str] = set()
    for entry in entries:
        if entry.name in seen:
            raise cursor.error(f"tensor {shown(entry.name)}", "appears twice")
        seen.add(entry.name)
    return entries


def _read_entry(cursor: Cursor, index: int, alignment: int) -> _Entry:
    name = cursor.string(f"tensor {index} name", MAX_TENSOR_NAME_BYTES)
    if not name:
        raise cursor.error(f"tensor {index} name", "is empty")
    field = f"tensor {shown(name)}"
    n_dimensions = cursor.u32(f"{field} n_dimensions")
    if not 1 <= n_dimensions <= MAX_DIMENSIONS:
        raise cursor.error(f"{field} n_dimensions", f"is {n_dimensions}, expected 1 to {MAX_DIMENSIONS}")
    shape = tuple(cursor.u64(f"{field} dimensions") for _ in range(n_dimensions))[::-1]
    n_values = 1
    for size in shape:
        n_values *= size
    if n_values == 0:
        raise cursor.error(f"{field} dimensions", f"are {shape}, expected all of them positive")
    encoding = _encoding(cursor, cursor.u32(f"{field} type"), field)
    if shape[-1] % encoding.block_values:
        problem = f"rows of {shape[-1]} do not divide into {encoding.label} blocks of {encoding.block_values}"
        raise cursor.error(f"{field} dimensions", problem)
    offset = cursor.u64(f"{field} offset")
    if offset % alignment:
        raise cursor.error(
            f"{field} offset", f"is {offset}, expected a multiple of {alignment} (general.alignment)"
        )
    return _Entry(name, shape, encoding, offset, n_values // encoding.block_values * encoding.block_bytes)


def _encoding(cursor: Cursor, type_id: int, field: str) -> Encoding:
    encoding = ENCODING_OF_TYPE.get(type_id)
    if encoding is not None:
        return encoding
    if type_id in REFUSED_TYPES:
        readable = ", ".join(known.label for known in Encoding)
        raise UnsupportedModel(
            f"{cursor.path}: {field} is stored as {REFUSED_TYPES[type_id]}, which unspool does not read; "
            f"take a file in one of {readable}"
        )
    raise cursor.error(f"{field} type", f"is {type_id}, which is no known ggml type")


def _check_extents(cursor: Cursor, entries: Sequence[_Entry], data_bytes: int) -> None:
    """Every tensor lies in the data section and no two share a byte."""
    end = 0
    for entry in sorted(entries, key=lambda entry: entry.offset):
        field = f"tensor {shown(entry.name)}"
        stop = entry.offset + entry.n_bytes
        if stop > data_bytes:
            raise cursor.error(
                f"{field} offset",
                f"its {entry.n_bytes} bytes end at byte {stop} of the data, which has {max(data_bytes, 0)}; "
                "the file is corrupt or its download was cut short",
            )
        if entry.offset < end:
            raise cursor.error(
                f"{field} offset", f"is {entry.offset}, inside the tensor before it, which ends at {end}"
            )
        end = stop
