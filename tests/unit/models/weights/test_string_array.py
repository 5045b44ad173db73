"""The core's readers of string arrays say what Python's own words say."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool import _native
from unspool.errors import ModelFileError
from unspool.models.weights.gguf_cursor import Cursor
from unspool.models.weights.string_array import StringArray

TEXTS = st.lists(st.text(alphabet=st.sampled_from("aé \u2581\U0001f600\x00"), max_size=6), max_size=8)


def packed(texts: list[bytes]) -> bytes:
    return b"".join(struct.pack("<Q", len(text)) + text for text in texts)


def array_of(texts: list[bytes]) -> StringArray:
    data = b"ahead" + packed(texts) + b"behind"
    buffer = mmap.mmap(-1, len(data))
    buffer.write(data)
    cursor = Cursor(Path("m.gguf"), buffer)
    cursor.take(5, "ahead")
    starts = cursor.string_starts(len(texts), "tokens")
    assert cursor.position == len(data) - 6
    return StringArray(cursor.path, "tokens", buffer, starts, cursor.position)


@given(TEXTS)
def test_strings_come_back_whole_and_cut_at_their_spaces(texts: list[str]) -> None:
    array = array_of([text.encode() for text in texts])
    assert list(array) == texts
    assert [array[i] for i in range(len(array))] == texts
    assert array.split() == [tuple(text.split(" ")) for text in texts]


@pytest.mark.parametrize("read", [list, StringArray.split])
def test_a_string_that_is_not_utf8_is_named(read) -> None:
    with pytest.raises(ModelFileError, match=r"tokens\[1\].*not UTF-8"):
        read(array_of([b"good", b"b\xff d", b"\xff"]))


@given(TEXTS, st.integers(0, 80))
def test_starts_end_with_the_file(texts: list[str], cut: int) -> None:
    whole = packed([text.encode() for text in texts])
    data = np.frombuffer(whole[:cut], np.uint8)
    starts = _native.string_starts(data, 0, len(data), len(texts))
    position, expected = 0, []
    for text in texts:
        end = position + 8 + len(text.encode())
        if end > len(data):
            break
        expected.append(position + 8)
        position = end
    if len(texts) * 8 > len(data):  # fewer bytes than lengths: nothing is read
        expected = []
    assert starts.tolist() == expected


def test_bounds_outside_the_data_are_refused() -> None:
    data = np.zeros(32, np.uint8)
    for starts in ([8, 48], [40, 48], [-1, 16], [16, 8]):
        with pytest.raises(IndexError):
            _native.strings(data, np.array(starts, np.int64))
