"""Stop strings in bytes: which one wins, and what may have to be held back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from stop_matches import feed

from unspool.engine.stop import StopMatch, StopMatcher, StopString


def matcher(*stops):
    return StopMatcher([StopString.compile(stop) for stop in stops])


def test_a_stop_is_found_across_tokens():
    assert feed(matcher("DEFGHIJ"), b"ABC", b"DEF", b"G", b"HI", b"JK") == StopMatch("DEFGHIJ", 3, 10)


def test_a_stop_is_found_when_a_character_is_split_into_bytes():
    assert feed(matcher("世"), b"a\xe4", b"\xb8", b"\x96") == StopMatch("世", 1, 4)


def test_the_stop_that_is_complete_first_wins_not_the_first_in_the_list():
    assert feed(matcher("late!", "ate"), b"late!") == StopMatch("ate", 1, 4)


def test_of_two_complete_at_once_the_one_that_starts_first_wins():
    assert feed(matcher("b", "ab"), b"xab") == StopMatch("ab", 1, 3)


def test_of_two_the_same_the_first_in_the_list_wins():
    assert feed(matcher("ab", "ab"), b"ab").stop == "ab"
    assert feed(matcher("aab", "xb", "ab"), b"ab") == StopMatch("ab", 0, 2)


def test_a_false_start_does_not_hide_a_later_start():
    assert feed(matcher("aab"), b"aaab") == StopMatch("aab", 1, 4)
    assert feed(matcher("abac"), b"ababac") == StopMatch("abac", 2, 6)


def test_only_a_real_prefix_is_held_back():
    follower = matcher("END", "</s>")
    for data, n_held in [(b"hello", 0), (b" E", 1), (b"N", 2), (b"!", 0), (b"</", 2), (b"<", 1), (b"E", 1)]:
        assert follower.accept(data) is None
        assert follower.n_held == n_held


def test_without_stops_nothing_is_held():
    follower = matcher()
    assert follower.accept(b"anything") is None
    assert follower.n_held == 0


def test_a_fork_goes_its_own_way():
    follower = matcher("abc")
    follower.accept(b"xab")
    other = follower.fork()
    assert other.accept(b"d") is None
    assert other.n_held == 0
    assert follower.accept(b"c") == StopMatch("abc", 1, 4)


small = st.text(alphabet="ab", min_size=1, max_size=4)


@given(st.lists(small, min_size=1, max_size=4), st.lists(st.text("abc", max_size=4), max_size=10))
def test_the_automaton_agrees_with_looking_at_the_whole_text(stops, pieces):
    follower = matcher(*stops)
    match = feed(follower, *[piece.encode() for piece in pieces])
    text = "".join(pieces)
    found = [
        (start + len(stop), start, i, stop)
        for i, stop in enumerate(stops)
        for start in range(len(text))
        if text.startswith(stop, start)
    ]
    if not found:
        assert match is None
        held = max(n for stop in stops for n in range(len(stop)) if text.endswith(stop[:n]))
        assert follower.n_held == held
    else:
        end, start, _, stop = min(found)
        assert match == StopMatch(stop, start, end)
