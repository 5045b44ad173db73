"""Strings of a GGUF array, decoded when they are read.

A vocabulary and its merges are some 300,000 strings. Their bounds are checked when the file is opened;
turning them into Python strings waits until someone (the tokenizer) asks, and nothing is kept, so that
opening a model stays fast and small.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar, overload

import numpy as np
import numpy.typing as npt

from unspool import _native
from unspool.errors import ModelFileError

T = TypeVar("T")


class StringArray(Sequence[str]):
    """A read-only list of strings over a mapped file. A string that is not UTF-8 raises ModelFileError."""

    __slots__ = ("_buffer", "_field", "_path", "_starts")

    def __init__(
        self, path: Path, field: str, buffer: mmap.mmap | bytes, starts: npt.NDArray[np.int64], end: int
    ) -> None:
        # String i is the bytes [starts[i], starts[i + 1] - 8): eight bytes of length lie between two strings.
        self._path = path
        self._field = field
        self._buffer = buffer
        self._starts = np.append(starts, end + 8)  # (n + 1,)

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self._string(i) for i in range(*index.indices(len(self)))]
        return self._string(range(len(self))[index])

    def __iter__(self) -> Iterator[str]:
        return iter(self._read(_native.strings))

    def split(self) -> list[tuple[str, ...]]:
        """Each string cut at its spaces."""
        return self._read(_native.split_strings)

    def _read(self, reader: Callable[[npt.NDArray[np.uint8], npt.NDArray[np.int64]], T]) -> T:
        try:
            return reader(np.frombuffer(self._buffer, np.uint8), self._starts)
        except UnicodeDecodeError:
            for index in range(len(self)):  # names the string
                self._string(index)
            raise

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StringArray | list | tuple):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # equal to lists, which have none

    def __repr__(self) -> str:
        return f"<StringArray {self._field}: {len(self)} strings>"

    def _string(self, index: int) -> str:
        start, stop = int(self._starts[index]), int(self._starts[index + 1]) - 8
        try:
            return self._buffer[start:stop].decode()
        except UnicodeDecodeError as problem:
            field = f"{self._field}[{index}]"
            at = start + problem.start
            raise ModelFileError(self._path, field, f"is not UTF-8 ({problem.reason} at byte {at})") from None
