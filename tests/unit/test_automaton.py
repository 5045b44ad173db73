"""Patterns as automata: what is refused, and how the refusal reads."""

from __future__ import annotations

import sys

import pytest

from unspool.automaton import MAX_PLACES, PatternError, compile_pattern
from unspool.errors import BadRequest
from unspool.params import DecodingParams


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(a", r"missing \), unterminated subpattern at position 0"),
        ("ab[", "unterminated character set at position 2"),
        ("a**", "multiple repeat at position 2"),
        ("x{99999999999}", "the repetition number is too large"),
        ("(" * 5000, "nested too deeply"),
        (r"(a)\1", "a reference to a group cannot be followed"),
        (r"(a)(?(1)b|c)", "a condition on a group"),
        ("a(?=b)", "looking ahead or behind"),
        ("a(?!b)", "looking ahead or behind"),
        ("(?<=a)b", "looking ahead or behind"),
        ("a$", r"the end of a text \(\$, \\Z\) is not known"),
        (r"a\Z", "the end of a text"),
        ("a*", "matches the empty text"),
        ("|a", "matches the empty text"),
        (r"\b", "matches the empty text"),
        ("^", "matches the empty text"),
        ("a{3000}", f"more than {MAX_PLACES} places"),
        ("(){10000000}a", "too large"),
        ("(?:a?){1000}b", "it can go on in too many ways"),
    ],
)
def test_what_cannot_be_followed_is_refused_with_pattern_and_reason(pattern, words):
    with pytest.raises(PatternError, match=words):
        compile_pattern(pattern)
    with pytest.raises(BadRequest, match=words) as caught:
        DecodingParams(stop_regex=["fine", pattern])
    assert caught.value.code == "bad_stop_regex"
    assert str(caught.value).startswith(f"stop_regex holds {pattern!r}"[:40])
    assert "as for Python's re, or give plain text as stop" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("limit", [1000, 100_000])
def test_how_deep_groups_may_nest_does_not_depend_on_the_interpreters_limit(limit):
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(limit)
    try:
        assert compile_pattern("(" * 60 + "a" + ")" * 60).places
        assert compile_pattern(r"\(" * 300 + "[(]" * 300 + "[](]").places
        with pytest.raises(PatternError, match="nested too deeply: 100 in each other are the most"):
            compile_pattern("(" * 101 + "a" + ")" * 101)
    finally:
        sys.setrecursionlimit(before)


def test_one_pattern_is_a_list_of_one():
    assert DecodingParams(stop_regex=r"\d+").stop_regex == (r"\d+",)
    with pytest.raises(BadRequest, match="each stop_regex must be a non-empty string"):
        DecodingParams(stop_regex=[""])


def test_equal_characters_share_an_atom():
    automaton = compile_pattern("abab(?i:a)")
    assert len(automaton.atoms) == 3


def test_what_is_remembered_of_characters_stays_small():
    automaton = compile_pattern("[a-z]+!")
    for code_point in range(5000):
        assert automaton.atoms_of(chr(code_point)) == sum(
            1 << i for i, atom in enumerate(automaton.atoms) if atom.match(chr(code_point))
        )
    assert len(automaton._known) <= 4096
