"""Verifiers that read the text alone: a pattern, quotations, a function, a person."""

from __future__ import annotations

import io
import math

import pytest
from answers import answer

from unspool.errors import BadRequest, VerifierError
from unspool.search.verifiers.base import Verdict
from unspool.search.verifiers.citations import Citations
from unspool.search.verifiers.code_block import code_of
from unspool.search.verifiers.function import Function
from unspool.search.verifiers.logprob import MeanLogprob, NormalisedLogprob, SumLogprob
from unspool.search.verifiers.person import Person
from unspool.search.verifiers.regex import Regex


def judge(verifier, text):
    return verifier("prompt", answer(text))


# Log-probabilities


def test_sum_mean_and_normed_logprobs():
    done = answer("a b c", -1.0, -2.0, -3.0)
    assert SumLogprob()("", done).score == -6
    assert MeanLogprob()("", done).score == -2
    assert NormalisedLogprob(norm="power", alpha=0.5)("", done).score == pytest.approx(-6 / math.sqrt(3))
    assert NormalisedLogprob(alpha=1.0)("", answer("x", *[-1.0] * 7)).score == pytest.approx(
        -3.5
    )  # lp(7) = 2


def test_sums_favour_the_short_and_means_the_long():
    short, long = answer("a", -1.5), answer("a b", -1.0, -1.0)
    assert SumLogprob()("", short).score > SumLogprob()("", long).score
    assert MeanLogprob()("", short).score < MeanLogprob()("", long).score


def test_an_empty_answer_comes_last_and_a_threshold_accepts():
    assert MeanLogprob()("", answer("", n_tokens=0)).score == -math.inf
    assert MeanLogprob(accept_at=-2.0)("", answer("a", -1.0)).accepted is True
    assert MeanLogprob(accept_at=-0.5)("", answer("a", -1.0)).accepted is False
    assert MeanLogprob()("", answer("a", -1.0)).accepted is None


def test_logprobs_that_nobody_asked_for_are_missed():
    assert SumLogprob().needs_logprobs
    with pytest.raises(BadRequest, match="logprobs=0"):
        SumLogprob()("", answer("a b"))
    with pytest.raises(BadRequest, match="must be one of"):
        NormalisedLogprob(norm="cubic")


# A pattern


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"answer is (\w+)", "The answer is A. No: the answer is B.", "B"),
        (r"(?P<answer>\d+) (apples|pears)", "7 pears", "7"),
        (r"\d+", "1 22 333", "333"),
        (r"(a)|b", "b", "b"),
        (r"x", "abc", None),
    ],
)
def test_the_last_match_is_the_answer(pattern, text, found):
    verdict = judge(Regex(pattern), text)
    assert (verdict.answer, verdict.accepted, verdict.score) == (found, found is not None, found is not None)


def test_a_pattern_may_have_to_match_all_and_in_any_case():
    assert judge(Regex("yes", whole=True), " yes\n").accepted is True
    assert judge(Regex("yes", whole=True), "yes!").accepted is False
    assert judge(Regex("yes", ignore_case=True), "YES").accepted is True
    with pytest.raises(BadRequest, match="must be a regular expression"):
        Regex("(")


# Quotations

SOURCES = {
    "1": "The lighthouse was  built in 1822 — of granite.",
    "2": "“It’s lit”, she said, “every night.”",
}


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ('"The lighthouse was built" long ago', 1.0),
        ("“built in 1822 - of granite.”", 1.0),
        ("«THE LIGHTHOUSE WAS built»", 1.0),
        ('"The lighthouse ... of granite"', 1.0),
        ('"of granite ... The lighthouse"', 0.0),
        ('"The lighthouse ... every night"', 0.0),
        ('"The lighthouse was built" and "it was torn down"', 0.5),
        ('"lighthouse was built in" [1]', 1.0),
        ('"lighthouse was built in" [2]', 0.0),
        ('"he lighthouse was buil"', 0.0),
    ],
)
def test_quotations_are_looked_up_in_the_sources(text, share):
    verdict = judge(Citations(SOURCES), text)
    assert (verdict.score, verdict.accepted) == (share, share == 1)


def test_an_answer_that_quotes_nothing_supports_nothing():
    assert judge(Citations(SOURCES), 'a "so called" light').accepted is False
    assert "not there: 'it was torn down'" in judge(Citations(SOURCES), '"it was torn down"').detail
    with pytest.raises(BadRequest, match="at least one"):
        Citations({})


# A function


def test_a_function_scores_accepts_or_says_it_all():
    assert judge(Function(lambda p, t: len(t)), "abc") == Verdict(3.0)
    assert judge(Function(lambda p, t: len(t), accept_at=3), "abc").accepted is True
    assert judge(Function(lambda p, t: t == "a"), "abc") == Verdict(0.0, False)
    told = Verdict(1.0, answer="x")
    assert judge(Function(lambda p, t: told), "abc") is told


@pytest.mark.parametrize("function", [lambda p, t: 1 / 0, lambda p, t: "good", lambda p, t: float("nan")])
def test_a_function_that_fails_is_named(function):
    with pytest.raises(VerifierError, match="<lambda>"):
        judge(Function(function), "abc")


def test_what_cannot_be_called_is_refused_and_our_own_errors_pass():
    with pytest.raises(BadRequest, match="callable"):
        Function(3)

    def refuse(prompt, text):
        raise BadRequest("mine")

    with pytest.raises(BadRequest, match="mine"):
        judge(Function(refuse), "abc")


# A person


def ask(said, text="An answer.\x1b[2J"):
    shows = io.StringIO()
    return judge(Person(io.StringIO(said), shows), text), shows.getvalue()


@pytest.mark.parametrize(
    ("said", "score", "accepted"),
    [
        ("y\n", 1, True),
        ("No\n", 0, False),
        ("7\n", 0.7, None),
        ("10\n", 1, True),
        ("what\n11\n4.5\n", 0.45, None),
    ],
)
def test_a_person_is_asked_until_the_answer_is_one(said, score, accepted):
    verdict, _ = ask(said)
    assert (verdict.score, verdict.accepted) == (pytest.approx(score), accepted)


def test_what_a_person_is_shown_cannot_drive_the_terminal():
    _, shown = ask("y\n")
    assert "An answer.\\x1b[2J" in shown
    assert "\x1b" not in shown


def test_a_person_who_is_gone_has_judged_nothing():
    with pytest.raises(VerifierError, match="nobody judged"):
        ask("")


# The program in an answer


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x = 1", "x = 1"),
        ("Sure:\n```python\nx = 1\n```\nUse it:\n```python\nx\n```\n", "x = 1\n"),
        ("```bash\npip\n```\n```py\nx\n```", "x\n"),
        ("```\nx\n```", "x\n"),
        ("```\nout\n```\n```python\nx\n```", "x\n"),
        ("```python\nx = '''```'''\n", "x = '''```'''\n"),
    ],
)
def test_the_program_is_the_first_python_block(text, code):
    assert code_of(text) == code


def test_a_score_that_is_no_number_is_no_verdict():
    with pytest.raises(BadRequest, match="nan"):
        Verdict(math.nan)
