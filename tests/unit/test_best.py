"""Best-of-n over events that no model wrote."""

from __future__ import annotations

import pytest
from answers import Told

from unspool.best import run_best
from unspool.errors import CapacityError, VerifierError
from unspool.params import DecodingParams
from unspool.search.best_of import BestOf
from unspool.search.verifiers.base import Verdict
from unspool.search.verifiers.function import Function
from unspool.search.verifiers.logprob import MeanLogprob
from unspool.search.verifiers.majority import Majority
from unspool.search.verifiers.regex import Regex

PARAMS = DecodingParams(temperature=0.8)


def best(told, verifier, *, watch=None, **settings):
    spec = BestOf(n=len(told.scripts), verifier=verifier, **settings)
    return run_best(told, "prompt", spec, PARAMS, watch)


def test_answers_are_ranked_by_score_and_the_report_has_all():
    told = Told(["b"], ["a", "a", "a"], ["c", "c"])
    report = best(told, Function(lambda prompt, text: len(text)))
    assert [a.text for a in report.answers] == ["aaa", "cc", "b"]
    assert [a.branch for a in report.answers] == [1, 2, 0]
    assert (report.ended, report.n_tokens, report.seed, report.n_accepted) == ("complete", 6, 7, 0)
    assert report.best.text == str(report) == "aaa"
    assert report.best.completion.token_ids == report.best.token_ids == (0, 1, 2)
    assert told.is_closed


def test_the_rest_is_stopped_when_one_is_accepted():
    told = Told(["no"], ["y", "es"], ["l", "o", "n", "g"])
    heard = []
    report = best(told, Regex("yes"), watch=heard.append)
    assert (report.ended, report.best.text, report.n_accepted) == ("decided", "yes", 1)
    assert [a.text for a in heard] == ["no", "yes"]
    stopped = report.answers[-1]
    assert (stopped.text, stopped.token_ids, stopped.completion, stopped.verdict) == ("l", (0,), None, None)
    assert "enough" in stopped.problem
    assert report.n_tokens == 1 + 2 + 1
    assert told.is_closed


def test_without_early_stop_all_are_judged():
    report = best(Told(["yes"], ["n", "o"], ["y", "e", "s"]), Regex("yes"), early_stop=False)
    assert (report.ended, report.n_accepted, len(report.answers)) == ("complete", 2, 3)
    assert [a.branch for a in report.answers] == [0, 2, 1]


def test_the_budget_is_of_all_answers_together():
    told = Told(["a", "b"], ["c", "d", "e"], ["f", "g", "h", "i"])
    report = best(told, Function(lambda p, t: 1.0), budget_tokens=5)
    assert (report.ended, report.n_tokens) == ("budget", 5)
    assert report.best.text == "ab"
    assert [a.problem for a in report.answers] == ["", "the budget was spent", "the budget was spent"]


def test_a_budget_in_which_nothing_ends_has_no_best():
    report = best(Told(["a", "b"], ["c", "d"]), Regex("x"), budget_tokens=1)
    assert (report.best, str(report), report.n_tokens) == (None, "", 1)
    assert [a.text for a in report.answers] == ["a", ""]


def test_an_answer_that_ends_with_the_token_that_spends_the_budget_counts():
    report = best(Told(["a"], ["b"]), Regex("a"), budget_tokens=2)
    assert (report.ended, report.best.text) == ("decided", "a")
    report = best(Told(["x"], ["y"]), Regex("a"), budget_tokens=2)
    assert (report.ended, len([a for a in report.answers if a.verdict])) == ("complete", 2)


def test_a_vote_stops_when_it_is_decided():
    told = Told(["4"], ["4"], ["5"], ["4"], ["wait", "5"])
    report = best(told, Majority(Regex(r"\d")))
    assert (report.ended, report.best.text, told.n_read) == ("decided", "4", 4)
    assert [(v.answer, v.n) for v in report.votes] == [("4", 3), ("5", 1)]


def test_log_probabilities_reach_the_verifier():
    assert [a.branch for a in best(Told(["a"], ["b"]), MeanLogprob()).answers] == [0, 1]
    assert best(Told(["a"], ["b"]), MeanLogprob()).best.verdict.score == -1


def test_an_answer_that_could_not_be_judged_is_behind_those_that_were():
    def judge(prompt, text):
        if text == "b":
            raise VerifierError("down")
        return Verdict(0.0, False)

    report = best(Told(["b"], ["a"]), Function(judge))
    assert [a.text for a in report.answers] == ["a", "b"]
    assert (report.answers[1].problem, report.answers[1].verdict) == ("down", None)


def test_when_none_could_be_judged_the_error_is_raised():
    def judge(prompt, text):
        raise VerifierError(f"{text} down")

    told = Told(["a"], ["b", "c"])
    with pytest.raises(VerifierError, match="bc down"):
        best(told, Function(judge))
    assert told.is_closed


def test_what_the_engine_raises_comes_out_and_the_stream_is_closed():
    told = Told(["a"], ["b"], error=CapacityError("full"))
    with pytest.raises(CapacityError):
        best(told, Regex("x"))
    assert told.is_closed


def test_the_verifier_hears_the_prompt():
    heard = []
    best(Told(["a"]), Function(lambda prompt, text: heard.append((prompt, text)) or True))
    assert heard == [("prompt", "a")]
