"""The key-value section of a GGUF file (format: ggml-org/ggml, docs/gguf.md).

Values become plain Python numbers, bools and strings; arrays of numbers become read-only NumPy views of
the file, arrays of strings a `StringArray`, arrays of arrays a tuple.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any

import numpy as np

from unspool.models.weights.gguf_cursor import Cursor
from unspool.models.weights.mapped_file import shown
from unspool.models.weights.string_array import StringArray

MAX_KEYS = 1 << 16
MAX_KEY_BYTES = (1 << 16) - 1  # from the format
MAX_STRING_BYTES = 64 << 20  # an embedded tokenizer.json is the longest in use, 33 MB
MAX_STRINGS = 1 << 22  # in arrays of the whole file; the largest vocabulary with its merges has 2**20
MAX_NESTED_ARRAYS = 1 << 16  # of the whole file; no known file has any
MAX_DEPTH = 4  # of arrays in arrays

_BOOL, _STRING, _ARRAY = 7, 8, 9
_NUMBER_DTYPES: dict[int, str] = {
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
_NUMBER_STRUCTS: dict[int, Struct] = {
    code: Struct("<" + letter)
    for code, letter in zip(_NUMBER_DTYPES, "BbHhIifQqd", strict=True)  # same order, struct's letters
}
_SMALLEST_PAIR_BYTES = 8 + 1 + 4 + 1  # key length, a key of one byte, value type, a value of one byte


def read_metadata(cursor: Cursor, n_keys: int) -> dict[str, Any]:
    """Read n_keys pairs at the cursor."""
    return {key: value for key, value, _ in read_pairs(cursor, n_keys)}


def read_pairs(cursor: Cursor, n_keys: int) -> Iterator[tuple[str, Any, slice]]:
    """Each key with its value, and where the bytes of the pair lie in the file."""
    if n_keys > MAX_KEYS or n_keys * _SMALLEST_PAIR_BYTES > cursor.end - cursor.position:
        limit = min(MAX_KEYS, (cursor.end - cursor.position) // _SMALLEST_PAIR_BYTES)
        raise cursor.error("metadata_kv_count", f"is {n_keys}, more than the {limit} this file can hold")
    values = _ValueReader(cursor)
    seen: set[str] = set()
    for index in range(n_keys):
        start = cursor.position
        key = cursor.string(f"key {index}", MAX_KEY_BYTES)
        field = shown(key)
        if not key:
            raise cursor.error(f"key {index}", "is empty")
        if key in seen:
            raise cursor.error(field, "appears twice")
        seen.add(key)
        value = values.read(cursor.u32(f"{field} type"), field)
        yield key, value, slice(start, cursor.position)


class _ValueReader:
    """Reads values of any type, counting strings and nested arrays against budgets for the file."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._left = {_STRING: MAX_STRINGS, _ARRAY: MAX_NESTED_ARRAYS}

    def read(self, value_type: int, field: str, depth: int = 0) -> Any:
        cursor = self._cursor
        if value_type in _NUMBER_STRUCTS:
            number = _NUMBER_STRUCTS[value_type]
            return number.unpack_from(cursor.buffer, cursor.take(number.size, field))[0]
        if value_type == _STRING:
            return cursor.string(field, MAX_STRING_BYTES)
        if value_type == _BOOL:
            byte = cursor.buffer[cursor.take(1, field)]
            if byte > 1:
                raise cursor.error(field, f"is a bool stored as {byte}, expected 0 or 1")
            return byte == 1
        if value_type == _ARRAY:
            return self._array(field, depth)
        raise cursor.error(f"{field} type", f"is {value_type}, expected a value type 0 to 12")

    def _array(self, field: str, depth: int) -> Any:
        cursor = self._cursor
        if depth == MAX_DEPTH:
            raise cursor.error(field, f"nests arrays more than {MAX_DEPTH} deep")
        item_type = cursor.u32(f"{field} item type")
        n_items = cursor.u64(f"{field} length")
        if item_type in _NUMBER_DTYPES:
            dtype = np.dtype(_NUMBER_DTYPES[item_type])
            start = cursor.take(n_items * dtype.itemsize, field)
            return np.frombuffer(cursor.buffer, dtype, n_items, start)
        if item_type == _BOOL:
            bytes_ = np.frombuffer(cursor.buffer, np.uint8, n_items, cursor.take(n_items, field))
            if n_items and bytes_.max() > 1:
                raise cursor.error(field, f"holds a bool stored as {bytes_.max()}, expected 0 or 1")
            return bytes_.view(np.bool_)
        if item_type not in self._left:
            raise cursor.error(f"{field} item type", f"is {item_type}, expected a value type 0 to 12")
        if n_items > self._left[item_type]:
            kind = "strings" if item_type == _STRING else "nested arrays"
            problem = f"is {n_items}, more than the {self._left[item_type]} {kind} the file may still have"
            raise cursor.error(f"{field} length", problem)
        self._left[item_type] -= n_items
        if item_type == _STRING:
            starts = cursor.string_starts(n_items, field)
            return StringArray(cursor.path, field, cursor.buffer, starts, cursor.position)
        return tuple(self._array(f"{field}[{i}]", depth + 1) for i in range(n_items))
