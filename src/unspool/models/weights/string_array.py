"""Strings of a GGUF array, decoded when they are read.

A vocabulary and its merges are some 300,000 strings. Their bounds are checked when the file is opened;
turning them into Python strings waits until someone (the tokenizer) asks, and nothing is kept, so that
opening a model stays fast and small.
"""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import overload

import numpy as np

from unspool.errors import ModelFileError


class StringArray(Sequence[str]):
    """A read-only list of strings over a mapped file. A string that is not UTF-8 raises ModelFileError."""

    __slots__ = ("_buffer", "_field", "_path", "_starts")

    def __init__(self, path: Path, field: str, buffer: mmap.mmap, starts: array[int], end: int) -> None:
        # String i is the bytes [starts[i], starts[i + 1] - 8): eight bytes of length lie between two strings.
        self._path = path
        self._field = field
        self._buffer = buffer
        starts.append(end + 8)
        self._starts = np.frombuffer(starts, dtype=np.int64)  # (n + 1,)

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
        starts = self._starts.tolist()
        base = starts[0]
        data = self._buffer[base : starts[-1]]
        try:
            # Slicing one bytes object is several times faster than slicing the mapping for each string.
            return iter([data[a - base : b - base - 8].decode() for a, b in pairwise(starts)])
        except UnicodeDecodeError:
            return iter([self._string(i) for i in range(len(self))])  # the slow way names the string

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
