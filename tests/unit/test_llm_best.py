"""Best-of-n through the front door, on a tiny model from a file."""

from __future__ import annotations

import pytest
from tiny_llm import write_tiny_llm

from unspool import LLM, BestOf, DecodingParams
from unspool.errors import ParameterConflict
from unspool.search.verifiers.base import Verdict
from unspool.search.verifiers.function import Function
from unspool.search.verifiers.logprob import MeanLogprob
from unspool.search.verifiers.majority import Majority
from unspool.search.verifiers.regex import Regex

PARAMS = DecodingParams(max_tokens=10, seed=5, ignore_eos=True)


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    with LLM(write_tiny_llm(tmp_path_factory.mktemp("model") / "tiny.gguf"), threads=1) as llm:
        yield llm


@pytest.fixture(autouse=True)
def nothing_stays_behind(llm):
    yield
    llm._worker.call(llm._engine.check)
    assert llm._engine.is_idle


def test_the_answers_are_those_that_generate_writes(llm):
    report = llm.best("hello", BestOf(n=4, verifier=MeanLogprob()), PARAMS)
    answers = llm.generate("hello", DecodingParams(**{**PARAMS.to_dict(), "logprobs": 0}), n=4)
    assert {a.branch: a.token_ids for a in report.answers} == {i: a.token_ids for i, a in enumerate(answers)}
    means = [sum(e.token.logprob for e in a.logprobs) / len(a.logprobs) for a in answers]
    assert [a.branch for a in report.answers] == sorted(range(4), key=lambda i: -means[i])
    assert (report.ended, report.n_tokens, report.seed) == ("complete", 40, 5)
    assert report.best.verdict.score == pytest.approx(max(means))


def test_a_report_is_the_same_on_every_run_though_answers_are_stopped(llm):
    params = DecodingParams(max_tokens=30, seed=11, ignore_eos=True, stop=("a", "e", " "))
    spec = BestOf(n=6, verifier=Function(lambda prompt, text: len(text) > 3))

    def facts():
        report = llm.best("hello", spec, params)
        return [
            (a.branch, a.text, a.token_ids, a.verdict, a.problem) for a in report.answers
        ], report.n_tokens

    assert facts() == facts() == facts()


def test_the_budget_stops_answers_without_end(llm):
    params = DecodingParams(max_tokens=None, seed=5, ignore_eos=True)
    report = llm.best("hello", BestOf(n=3, verifier=Regex("x"), budget_tokens=30), params)
    assert (report.ended, report.best) == ("budget", None)
    assert 30 <= report.n_tokens <= 33
    assert all(a.problem == "the budget was spent" for a in report.answers)


def test_a_chat_is_judged_by_what_was_asked_last(llm):
    heard = []
    spec = BestOf(n=2, verifier=Function(lambda prompt, text: heard.append(prompt) or Verdict(1.0)))
    messages = [
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": "second"},
    ]
    report = llm.best_chat(messages, spec, PARAMS)
    assert heard == ["second", "second"]
    assert [a.branch for a in report.answers] == [0, 1]


def test_token_ids_are_heard_as_text_and_branches_are_numbered_as_asked(llm):
    heard = []
    spec = BestOf(n=2, verifier=Function(lambda prompt, text: heard.append(prompt) or 1.0), budget_tokens=1)
    llm.best(llm.tokenize("hello"), BestOf(n=1, verifier=spec.verifier), PARAMS)
    assert heard == ["hello"]
    report = llm.best("hello", spec, PARAMS, branch=7)
    assert [a.branch for a in report.answers] == [7, 8]


def test_a_vote_watches_and_counts(llm):
    heard = []
    report = llm.best("hello", BestOf(n=3, verifier=Majority(Regex("."))), PARAMS, watch=heard.append)
    assert 2 <= len(heard) <= 3
    assert sum(vote.n for vote in report.votes) <= 3


def test_equal_answers_are_refused_before_anything_runs(llm):
    with pytest.raises(ParameterConflict):
        llm.best("hello", BestOf(n=2, verifier=Regex("x")), DecodingParams(temperature=0))
