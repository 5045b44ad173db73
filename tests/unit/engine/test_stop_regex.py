"""Stop patterns: which match wins, and what may have to be held back, against Python's own `re`."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stop_matches import feed

from unspool.automaton import compile_pattern
from unspool.engine.stop import StopMatch
from unspool.engine.stop_regex import RegexMatcher


def matcher(*patterns):
    return RegexMatcher([compile_pattern(pattern) for pattern in patterns])


def test_a_match_is_found_across_tokens():
    assert feed(matcher(r"\d+ apples"), b"say 1", b"2 app", b"les!") == StopMatch(r"\d+ apples", 4, 13)


def test_a_match_is_found_when_a_character_is_split_into_bytes():
    assert feed(matcher("[世界]"), b"a\xe4", b"\xb8", b"\x96") == StopMatch("[世界]", 1, 4)


def test_writing_ends_where_the_first_match_is_complete_though_it_could_grow():
    assert feed(matcher("a+"), b"baaa") == StopMatch("a+", 1, 2)
    assert feed(matcher("a.*c|b"), b"axbxc") == StopMatch("a.*c|b", 2, 3)


def test_of_two_complete_at_once_the_one_that_starts_first_wins_then_the_first_in_the_list():
    assert feed(matcher("b", "a?b"), b"xab") == StopMatch("a?b", 1, 3)
    assert feed(matcher("[a]b", "ab"), b"ab").stop == "[a]b"


def test_only_what_may_become_a_match_is_held_back():
    follower = matcher(r"</\w+>", "END")
    steps = [(b"hello", 0), (b" E", 1), (b"N", 2), (b"!", 0), (b"</", 2), (b"think", 7), (b" <", 1)]
    for data, n_held in steps:
        assert follower.accept(data) is None
        assert follower.n_held == n_held


def test_a_character_that_is_not_complete_is_held_back():
    follower = matcher("世")
    follower.accept(b"ab\xe4\xb8")
    assert follower.n_held == 2
    follower.accept(b"\x97")
    assert follower.n_held == 0


def test_without_patterns_nothing_is_held():
    follower = matcher()
    assert follower.accept(b"\xe4") is None
    assert follower.n_held == 0
    follower.rollback(1)


def test_an_anchor_holds_at_the_start_of_the_text_or_of_a_line():
    assert feed(matcher("^b"), b"ab\nb") is None
    assert feed(matcher(r"\Ab"), b"bab") == StopMatch(r"\Ab", 0, 1)
    assert feed(matcher("(?m)^b"), b"ab\nb") == StopMatch("(?m)^b", 3, 4)


def test_an_assertion_about_the_next_character_is_settled_when_that_comes():
    follower = matcher(r"\bEND\b")
    assert feed(follower, b"THE END") is None
    assert follower.n_held == 3
    assert follower.accept(b"ING") is None
    assert follower.n_held == 0
    assert feed(follower, b" END", b".") == StopMatch(r"\bEND\b", 11, 14)
    assert feed(matcher("(?m)b$"), b"bb", b"\n") == StopMatch("(?m)b$", 1, 2)


def test_case_and_alphabet_follow_the_flags():
    assert feed(matcher("(?i)straße"), "die STRAßE".encode()) is not None
    assert feed(matcher(r"\d"), "٣".encode()) is not None
    assert feed(matcher(r"(?a)\d"), "٣".encode()) is None
    assert feed(matcher("a.b"), b"a\nb") is None
    assert feed(matcher("(?s)a.b"), b"a\nb") is not None


def test_a_match_that_does_not_count_is_passed_over():
    follower = matcher("ab")
    assert follower.accept(b"ab", counts=False) is None
    assert follower.n_held == 0
    assert follower.accept(b"ab") == StopMatch("ab", 2, 4)


def test_a_pattern_that_makes_backtracking_explode_costs_no_more_than_its_places():
    follower = matcher(r"(a|a|aa)*(a*)*[bc]")  # re needs 2^n steps for n times "a"
    assert follower.accept(b"a" * 2000) is None
    assert follower.n_held == 2000
    assert follower.accept(b"b").start == 0


def test_the_work_for_a_token_does_not_depend_on_the_text():
    follower = matcher("<.*>", r"(x\w*){2} ")
    sizes = set()
    for _ in range(300):
        follower.accept(b"<xab")
        sizes.add(sum(map(len, follower._threads)))
    assert len(sizes) <= 3


PATTERNS = [
    "ab", "a+b", "(ab|b)a", "b{2,3}a", "[^a]b?c", "a.c", "(?i:A[BC])", "(?s:b.b)", r"\bab", r"\Bcb",
    "^a+b", "(?m:^b)", "世.", "(a*b)*c", "a(b|(?i:C))+?a", r"\w\W", "�", "(?:a|ab)(?:c|bcd)", "(?x: a  b )",
    r"a\Bb|^c",
]  # fmt: skip
SETTLED_LATER = [r"b\b", r"\Bb\B", "(?m:a$)"]
tokens = [
    b"a",
    b"b",
    b"c",
    b"ab",
    b"B",
    b"\n",
    b" ",
    b"\xe4",
    b"\xb8\x96",
    b"\xff",
    "世".encode(),
    b"\xe4\xb8",
]


@given(
    st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=3),
    st.lists(st.sampled_from(tokens), max_size=12),
)
def test_the_automaton_agrees_with_re_on_the_whole_text(patterns, pieces):
    follower = matcher(*patterns)
    match = feed(follower, *pieces)
    data = b"".join(pieces)
    n_waiting = 0 if match else follower._characters.n_waiting
    text = data[: len(data) - n_waiting].decode(errors="replace")
    found = min(
        ((end, start, i) for i, p in enumerate(patterns) for start, end in matches(p, text)), default=None
    )
    if found is None:
        assert match is None
    else:
        end, start, i = found
        assert match.stop == patterns[i]
        assert data[: match.start].decode(errors="replace") == text[:start]
        assert data[: match.end].decode(errors="replace") == text[:end]


@pytest.mark.parametrize("pattern", SETTLED_LATER)
@given(pieces=st.lists(st.sampled_from(tokens[:7]), max_size=12))
def test_what_is_settled_by_the_next_character_agrees_with_re_too(pattern, pieces):
    match = feed(matcher(pattern), *pieces)
    text = b"".join(pieces).decode()
    known = [(end, start) for start, end in matches(pattern, text) if end < len(text)]
    assert (match and (match.end, match.start)) == min(known, default=None)


def matches(pattern, text):
    """Every [start, end) of the text that a match can cover."""
    for end in range(1, len(text) + 1):
        ending_here = re.compile(rf"(?:{pattern})(?<=\A(?s:.{{{end}}}))")
        for start in range(end):
            if ending_here.match(text, start):
                yield start, end


@pytest.mark.parametrize("pattern", PATTERNS)
def test_text_is_held_back_exactly_while_some_way_on_makes_it_part_of_a_match(pattern):
    alphabet = "abc "
    words = ["".join(letters) for n in range(4) for letters in itertools.product(alphabet, repeat=n)]
    ways_on = [word for word in [*words, *"\n世�"] if word] + ["世a", "bcd", "cd"]
    for text in words:
        follower = matcher(pattern)
        if feed(follower, text.encode()) is not None:
            continue
        starts = [
            start
            for start in range(len(text))
            if any(crosses(pattern, text, text + way_on, start) for way_on in ways_on)
        ]
        assert follower.n_held == len(text) - min(starts, default=len(text)), text


def crosses(pattern, text, longer, start):
    """Whether a match can start in the text and end beyond it."""
    return any(
        re.compile(rf"(?:{pattern})(?<=\A(?s:.{{{end}}}))").match(longer, start)
        for end in range(len(text) + 1, len(longer) + 1)
    )


@pytest.mark.parametrize(
    "data", [b"\xe4\xe4\xb8\x96", b"\xf0\x9f\x98a", b"\xed\xa0\x80x", b"\xe0\x80\xaf", b"\xf4\x90"]
)
def test_bytes_that_are_no_text_read_as_they_are_reported(data):
    follower = matcher("x")
    seen = list(follower._characters.accept(data))
    waiting = follower._characters.n_waiting
    whole = data[: len(data) - waiting].decode(errors="replace")
    assert "".join(character for character, _, _ in seen) == whole
    assert [first for _, first, _ in seen][1:] == [last for _, _, last in seen][:-1]
    assert (seen[0][1], seen[-1][2]) == (0, len(data) - waiting) if seen else waiting == len(data)
