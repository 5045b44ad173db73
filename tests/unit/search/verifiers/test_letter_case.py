"""Which patterns find the same whatever the case of its letters."""

from __future__ import annotations

import pytest

from unspool.search.verifiers.regex import Regex

IGNORING = [
    r"(?i)yes|no",
    r"(?i:yes|no)",
    r"(?i:yes)|(?i:no)",
    r"Answer: (?i:(yes|no))",
    r"Answer: ((?i:yes|no))",
    r"Answer: (?P<answer>(?i:yes|no)) or (\w+)",
    r"(\w+), so (?i:(?P<answer>yes|no))",
    r"(?s:(?i:yes|no))",
    r"(?i:y)[0-9]+\s(?i:n), 7",
    r"(?i:[a-z]+)",
    r"(?=\w)(?i:yes)(?<!X)",
    r"(?i:(y|n)), \1|(?-i:(?i:maybe))",
    r"(?i:(yes|no))!?",
    r"(?i:((yes)|no)+)",
]
STRICT = [
    r"yes|no",
    r"[Yy]es|[Nn]o",
    r"\w+",
    r"(?i:the answer is) (\w+)",
    r"(?i:yes)|no",
    r"(?i:yes).",
    r"(?i:yes)[^x]",
    r"(?i:yes)[\d\w]",
    "(?i:yes)[\u0001-\uffff]",
    r"(?i)the answer is (?-i:(yes|no))",
    r"(?:(?i:(yes))|(\w+))",  # the first group may be none of the match, which then is the answer
    r"(?i:(yes))?\w",
    r"(\w+) (?P<answer>(?i:is) \1)",
    r"(?i:(x))?(?(1)y|\w)",
    r"(?!(?i:(yes)))\w+",
    r"[0-9]+",  # no letter
]


@pytest.mark.parametrize("pattern", IGNORING)
def test_a_pattern_ignores_case_where_a_flag_holds_for_every_letter_of_what_it_finds(pattern):
    assert Regex(pattern).ignores_case


@pytest.mark.parametrize("pattern", STRICT)
def test_one_letter_without_the_flag_keeps_results_apart(pattern):
    assert not Regex(pattern).ignores_case


@pytest.mark.parametrize("pattern", [pattern for pattern in STRICT[:-1] if "(?-i" not in pattern])
def test_the_setting_holds_for_the_whole_pattern(pattern):
    assert Regex(pattern, ignore_case=True).ignores_case
