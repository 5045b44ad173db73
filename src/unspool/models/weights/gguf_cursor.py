"""A reading position in a GGUF header that checks every length before anything is allocated."""

from __future__ import annotations

import mmap
from pathlib import Path
from struct import Struct

import numpy as np
import numpy.typing as npt

from unspool import _native
from unspool.errors import ModelFileError

# The largest real headers (a 262k-token vocabulary with its merges, plus an embedded tokenizer.json)
# are under 50 MB. A bound keeps a sparse file of terabytes from being walked for hours.
MAX_HEADER_BYTES = 256 << 20

_U32 = Struct("<I")
_U64 = Struct("<Q")


class Cursor:
    """Moves forward over `[position, end)` of a mapped file; each step names the field it reads."""

    __slots__ = ("buffer", "end", "path", "position")

    def __init__(self, path: Path, buffer: mmap.mmap | bytes) -> None:
        self.path = path
        self.buffer = buffer
        self.position = 0
        self.end = min(len(buffer), MAX_HEADER_BYTES)

    def error(self, field: str, problem: str) -> ModelFileError:
        return ModelFileError(self.path, field, problem)

    def overrun(self, field: str, wanted: int) -> ModelFileError:
        if self.end < len(self.buffer):
            end = f"the header may take {MAX_HEADER_BYTES} bytes at most"
        else:
            end = f"the file ends at byte {self.end}; it is corrupt or its download was cut short"
        return self.error(field, f"needs {wanted} bytes from byte {self.position}, but {end}")

    def take(self, n_bytes: int, field: str) -> int:
        """Step over n_bytes and return where they start."""
        start = self.position
        if n_bytes > self.end - start:
            raise self.overrun(field, n_bytes)
        self.position = start + n_bytes
        return start

    def u32(self, field: str) -> int:
        value: int = _U32.unpack_from(self.buffer, self.take(4, field))[0]
        return value

    def u64(self, field: str) -> int:
        value: int = _U64.unpack_from(self.buffer, self.take(8, field))[0]
        return value

    def string(self, field: str, max_bytes: int) -> str:
        """A length (uint64) and that many bytes of UTF-8."""
        n_bytes = self.u64(f"{field} length")
        if n_bytes > max_bytes:
            raise self.error(f"{field} length", f"is {n_bytes} bytes, expected {max_bytes} at most")
        start = self.take(n_bytes, field)
        try:
            return self.buffer[start : start + n_bytes].decode()
        except UnicodeDecodeError as problem:
            raise self.error(
                field, f"is not UTF-8 ({problem.reason} at byte {start + problem.start})"
            ) from None

    def string_starts(self, n_strings: int, field: str) -> npt.NDArray[np.int64]:
        """Step over an array of strings; return where each one's bytes start (see `StringArray`)."""
        if n_strings * 8 > self.end - self.position:
            raise self.overrun(field, n_strings * 8)
        data = np.frombuffer(self.buffer, np.uint8)
        starts = _native.string_starts(data, self.position, self.end, n_strings)
        index = len(starts)
        if index:
            last = int(starts[-1])
            self.position = last + _U64.unpack_from(self.buffer, last - 8)[0]
        if index < n_strings:  # says what is wrong with the next one
            self.take(self.u64(f"{field}[{index}] length"), f"{field}[{index}]")
            raise AssertionError(f"{field}[{index}] ends within the file")
        return starts
