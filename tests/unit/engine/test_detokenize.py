"""Streaming UTF-8: pieces that join to the whole, and never half a character."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unspool.engine.detokenize import Detokenizer


def deltas(pieces):
    detokenizer = Detokenizer()
    return [detokenizer.accept(piece) for piece in pieces] + [detokenizer.accept(b"", final=True)]


def test_a_character_waits_for_all_its_bytes():
    assert deltas([b"A \xe4", b"\xb8", b"\x96a", b"b"]) == ["A ", "", "世a", "b", ""]


def test_an_incomplete_character_at_the_end_is_one_replacement():
    assert deltas([b"a\xf0\x9f\x98"]) == ["a", "\ufffd"]


def test_what_can_no_longer_become_a_character_is_replaced_at_once():
    assert deltas([b"\xe4", b"x", b"\xff"]) == ["", "\ufffdx", "\ufffd", ""]


def test_a_fork_keeps_the_bytes_that_wait():
    detokenizer = Detokenizer()
    detokenizer.accept(b"\xe4\xb8")
    other = detokenizer.fork()
    assert other.accept(b"\x96") == "世"
    assert detokenizer.accept(b"\x97") == "丗"


hard_bytes = st.one_of(st.binary(max_size=6), st.text(max_size=3).map(lambda t: t.encode("utf-8", "ignore")))


@given(st.lists(hard_bytes, max_size=12))
def test_deltas_join_to_the_decoding_of_the_whole(pieces):
    whole = b"".join(pieces).decode("utf-8", errors="replace")
    assert "".join(deltas(pieces)) == whole


@given(st.text(max_size=20), st.integers(1, 5))
def test_valid_text_never_shows_a_replacement(text, size):
    data = text.encode("utf-8", "ignore")
    pieces = [data[i : i + size] for i in range(0, len(data), size)]
    expected = data.decode()
    assert "".join(deltas(pieces)) == expected
    assert all(delta in expected for delta in deltas(pieces))


@given(st.lists(hard_bytes, max_size=8), st.lists(hard_bytes, min_size=1, max_size=4), st.lists(hard_bytes))
def test_pieces_that_are_undone_leave_no_trace(first, undone, then):
    straight, back = Detokenizer(), Detokenizer()
    for piece in first:
        assert straight.accept(piece) == back.accept(piece)
    for piece in undone:
        back.accept(piece)
    back.rollback(len(undone))
    assert [back.accept(piece) for piece in then] == [straight.accept(piece) for piece in then]
