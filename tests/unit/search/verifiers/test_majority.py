"""Self-consistency: plain and weighted votes, and when they are decided."""

from __future__ import annotations

import itertools
import math

import pytest
from answers import answer

from unspool.errors import BadRequest
from unspool.search.verifiers.base import Verdict
from unspool.search.verifiers.majority import Majority
from unspool.search.verifiers.regex import Regex

LETTER = Regex(r"\b([A-D])\b")


def votes_of(verifier, *done, n_left=0):
    return verifier.rank([verifier("", each) for each in done], n_left)


def test_the_result_that_most_come_to_is_first_and_who_has_none_abstains():
    ranking = votes_of(Majority(LETTER), *map(answer, ["A", "B", "nothing", "B", "A", "B"]))
    assert [(v.answer, v.n, v.weight) for v in ranking.votes] == [("B", 3, 3), ("A", 2, 2)]
    assert ranking.order == (1, 3, 5, 0, 4, 2)


def test_of_equal_results_the_earlier_is_first():
    assert votes_of(Majority(LETTER), *map(answer, "BA")).order == (0, 1)


def test_a_weighted_vote_counts_how_likely_each_answer_was():
    sure, unsure = answer("A", math.log(0.9)), answer("B", math.log(0.3))
    ranking = votes_of(Majority(LETTER, weighted=True), unsure, sure, unsure)
    assert [(v.answer, v.n) for v in ranking.votes] == [("A", 1), ("B", 2)]
    assert [v.weight for v in ranking.votes] == pytest.approx([0.9, 0.6])
    assert ranking.order == (1, 0, 2)


def test_only_a_weighted_vote_needs_log_probabilities():
    assert not Majority(LETTER).needs_logprobs
    assert Majority(LETTER, weighted=True).needs_logprobs


@pytest.mark.parametrize(
    ("votes", "n_left", "is_decided"),
    [
        ("AAA", 2, True),
        ("AAA", 3, False),
        ("AAB", 1, False),
        ("AAAB", 1, True),
        ("", 1, False),
        ("AB", 0, False),
    ],
)
def test_a_vote_is_decided_when_those_to_come_cannot_change_it(votes, n_left, is_decided):
    assert votes_of(Majority(LETTER), *map(answer, votes), n_left=n_left).is_decided is is_decided


def test_stopping_when_decided_never_changes_the_winner():
    majority = Majority(LETTER)
    for whole in itertools.product("ABC", repeat=5):
        verdicts = [Verdict(1.0, answer=letter) for letter in whole]
        winner = majority.rank(verdicts, 0).votes[0].answer
        for n in range(1, 5):
            ranking = majority.rank(verdicts[:n], 5 - n)
            assert not ranking.is_decided or ranking.votes[0].answer == winner


@pytest.mark.parametrize(
    "regex",
    [
        Regex(r"(?i)\b(yes|no)\b"),
        Regex(r"\b(yes|no)\b", ignore_case=True),
        Regex(r"(?i:\b(yes|no)\b)"),
        Regex(r"\b(?i:yes|no)\b"),
    ],
)
def test_a_pattern_that_ignores_case_makes_one_result_of_yes_and_Yes(regex):
    done = [answer(text) for text in ("No, 7 * 13.", "yes", "It is no prime.", "YES", "NO")]
    assert [(vote.answer, vote.n) for vote in votes_of(Majority(regex), *done).votes] == [
        ("no", 3),
        ("yes", 2),
    ]
    verdict = Majority(Regex(r"(?i)\w+"))("", answer("STRASSE, Straße"))
    assert verdict.answer == "strasse"
    strict = Majority(Regex(r"\b(\w+)\b"))
    assert len(votes_of(strict, *map(answer, ("No", "no"))).votes) == 2


@pytest.mark.parametrize("answers", [None, "x", lambda prompt, completion: Verdict(1.0)])
def test_what_does_not_say_whether_it_ignores_case_finds_nothing_to_vote_for(answers):
    with pytest.raises(BadRequest, match="answers must be a verifier that finds what is voted for"):
        Majority(answers)
