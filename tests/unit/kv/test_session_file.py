"""Session files: whole or not at all, and every damage named."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.errors import SessionFileError
from unspool.kv.session import KvIdentity, Session
from unspool.kv.session_file import read_session, write_session

IDENTITY = KvIdentity("toy", "ab", "cd", 2, 1, 3, "<f2")
NOTE = {"messages": ["世界", 1.5, None]}


def session_of(n_tokens: int = 5, note=NOTE) -> Session:
    rng = np.random.default_rng(n_tokens)
    values = rng.standard_normal((n_tokens, 12)).astype("<f2").view(np.uint8)
    return Session(IDENTITY, rng.integers(0, 99, n_tokens, dtype=np.int32), values, note)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.session"


@pytest.mark.parametrize("n_tokens", [0, 1, 5, 1000])
def test_what_was_written_is_read_to_the_last_bit(path, n_tokens):
    session = session_of(n_tokens)
    assert write_session(path, session) == path.stat().st_size
    again = read_session(path, IDENTITY)
    assert again.identity == IDENTITY
    assert (again.token_ids.tolist(), again.n_tokens) == (session.token_ids.tolist(), n_tokens)
    assert again.values.tobytes() == session.values.tobytes()
    assert (again.note, again.origin) == (NOTE, str(path))


def test_a_file_is_replaced_as_a_whole_and_nothing_else_stays(path):
    write_session(path, session_of(5))
    write_session(path, session_of(7))
    assert read_session(path).n_tokens == 7
    assert os.listdir(path.parent) == [path.name]


def test_a_write_that_fails_leaves_the_old_file(path, monkeypatch):
    write_session(path, session_of(5))
    for error in (OSError(28, "No space left on device"), KeyboardInterrupt()):

        def fail(*_, error=error):
            raise error

        monkeypatch.setattr(os, "fsync", fail)
        expected = KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else SessionFileError
        with pytest.raises(expected) as caught:
            write_session(path, session_of(7))
        if expected is SessionFileError:
            assert "cannot be written: No space left on device" in str(caught.value)
        assert read_session(path).n_tokens == 5
        assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("name", ["no/such/folder/a.session", "a\0b"])
def test_a_place_that_cannot_be_is_refused(tmp_path, name):
    with pytest.raises(SessionFileError, match="cannot be written"):
        write_session(tmp_path / name, session_of())
    with pytest.raises(SessionFileError, match=r"file: cannot be read: .*; check the path"):
        read_session(tmp_path / name)


@pytest.mark.parametrize("note", [{"a": {1, 2}}, {"a": float("nan")}, ["no", "object"], "text"])
def test_a_note_that_is_no_json_object_is_refused(path, note):
    with pytest.raises(SessionFileError, match="note: "):
        write_session(path, session_of(note=note))
    assert not path.exists()


def test_an_empty_file_a_folder_and_a_pipe_are_refused(tmp_path, path):
    path.touch()
    os.mkfifo(tmp_path / "pipe")
    cases = [
        (path, "is empty"),
        (tmp_path, "cannot be read|not a regular"),
        (tmp_path / "pipe", "not a regular"),
    ]
    for name, problem in cases:
        with pytest.raises(SessionFileError, match=problem) as caught:
            read_session(name)
        assert (caught.value.field, caught.value.code) == ("file", "session_file")
    with pytest.raises(
        SessionFileError, match="cannot be written: it is no regular file; choose another place"
    ):
        write_session(tmp_path / "pipe", session_of())
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("n_tokens", [0, 3])
def test_a_file_cut_short_anywhere_is_refused(path, n_tokens):
    write_session(path, session_of(n_tokens))
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(SessionFileError) as caught:
            read_session(path)
        assert str(path) in str(caught.value)
    path.write_bytes(data + b"\0")
    with pytest.raises(SessionFileError, match=r"n_tokens: .* and the file has"):
        read_session(path)


@given(data=st.data())
def test_a_byte_changed_anywhere_is_noticed_and_its_field_named(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("fuzz") / "a.session"
    write_session(path, session_of(3))
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    with pytest.raises(SessionFileError) as caught:
        read_session(path)
    field, first = caught.value.field, len(content) - 3 * (4 + 24)
    expected = (
        {"magic"}
        if at < 8
        else {"version"}
        if at < 12
        else {"header_bytes", "header"}
        if at < first
        else {"values"}
    )
    assert field in expected


def with_header(path, **changes):
    """The file with another header, signed as it should be."""
    data = path.read_bytes()
    (header_bytes,) = struct.unpack_from("<I", data, 12)
    content = json.loads(data[48 : 48 + header_bytes]) | changes
    header = json.dumps({name: value for name, value in content.items() if value is not ...}).encode()
    preamble = struct.pack("<8sII32s", data[:8], 1, len(header), hashlib.sha256(header).digest())
    path.write_bytes(preamble + header + data[48 + header_bytes :])


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"n_tokens": 10**12}, "n_tokens"),
        ({"n_tokens": 1 << 60}, "n_tokens"),
        ({"n_tokens": -1}, "n_tokens"),
        ({"n_tokens": True}, "n_tokens"),
        ({"n_tokens": ...}, "n_tokens"),
        ({"token_bytes": 0}, "token_bytes"),
        ({"token_bytes": 13}, "n_tokens"),
        ({"sha256": None}, "values"),
        ({"note": 3}, "note"),
        ({"identity": ...}, "identity"),
        ({"identity": {"model": "x"}}, "identity"),
        ({"identity": dataclasses.asdict(IDENTITY) | {"n_layers": "2"}}, "identity.n_layers"),
        ({"identity": dataclasses.asdict(IDENTITY) | {"dtype": "O"}}, "identity.dtype"),
    ],
)
def test_a_header_that_lies_is_refused_before_any_memory_is_taken(path, changes, field):
    write_session(path, session_of())
    with_header(path, **changes)
    with pytest.raises(SessionFileError) as caught:
        read_session(path)
    assert caught.value.field == field


@pytest.mark.parametrize("header", [b"[]", b"{", b"\xff", b"[" * 100_000])
def test_a_header_that_is_no_object_is_refused(path, header):
    path.write_bytes(
        struct.pack("<8sII32s", b"\x89unspKV\n", 1, len(header), hashlib.sha256(header).digest()) + header
    )
    with pytest.raises(SessionFileError, match="header: "):
        read_session(path)


def test_another_version_is_refused_by_number(path):
    write_session(path, session_of())
    data = bytearray(path.read_bytes())
    data[8] = 2
    path.write_bytes(data)
    with pytest.raises(SessionFileError, match="version: is 2 and must be 1: another unspool wrote it"):
        read_session(path)


def test_another_file_is_no_session(path):
    path.write_text('{"format": "unspool-chat"}')
    with pytest.raises(SessionFileError, match="magic: this is not a session file"):
        read_session(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "qwen", "model_sha256": "x"}, "model: is of 'toy', and 'qwen' is loaded"),
        ({"model_sha256": "x"}, "model: is of 'toy', and 'toy' with other weights is loaded"),
        ({"tokenizer_sha256": "x"}, "tokenizer: is not the one that 'toy' has now"),
        ({"n_layers": 3}, "n_layers: is 2, and 3 with this runner"),
        ({"dtype": "<f4"}, "dtype: is '<f2', and '<f4' with this runner"),
    ],
)
def test_keys_and_values_of_another_model_are_refused_in_one_line_with_the_way_out(path, changes, message):
    write_session(path, session_of())
    with pytest.raises(SessionFileError) as caught:
        read_session(path, dataclasses.replace(IDENTITY, **changes))
    assert str(caught.value) == f"{path}: {message}; load what it was saved with, or save another session"
    assert caught.value.code == "session_mismatch"


def test_a_model_under_another_name_is_the_same_model(path):
    write_session(path, session_of())
    assert read_session(path, dataclasses.replace(IDENTITY, model="renamed")).n_tokens == 5


def test_infinities_are_refused(path):
    session = session_of()
    session.values.view("<f2")[3, 1] = np.inf
    write_session(path, session)
    with pytest.raises(SessionFileError, match="values: hold infinities"):
        read_session(path)
