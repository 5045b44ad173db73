"""Best-of-n through the front door, on a tiny model from a file."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tiny_llm import write_tiny_llm

from unspool import LLM, AsyncLLM, Beam, BestOf, DecodingParams, StochasticBeam
from unspool.errors import BadRequest, ParameterConflict, VerifierError
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


@pytest.mark.parametrize(("search", "n"), [(Beam(width=5), 4), (StochasticBeam(3), 3)])
def test_a_verifier_ranks_the_answers_of_a_search_anew(llm, search, n):
    params = DecodingParams(max_tokens=8, seed=5 if search.draws else None, ignore_eos=True)
    spec = BestOf(search, n=n, verifier=Function(lambda prompt, text: float(len(set(text)))))
    report = llm.best("hello", spec, params)
    answers = llm.generate("hello", params, n=n, search=spec.searched)
    by_letters = sorted(answers, key=lambda answer: -len(set(answer.text)))
    assert [a.token_ids for a in report.answers] == [a.token_ids for a in by_letters]
    assert {a.branch: a.completion.score for a in report.answers} == {a.branch: a.score for a in answers}
    assert report.ended == "complete"


def test_what_a_search_has_found_is_told_though_nobody_judged_it(llm):
    heard = []
    spec = BestOf(Beam(width=4), n=4, verifier=Function(lambda prompt, text: heard.append(text) or True))
    report = llm.best("hello", spec, DecodingParams(max_tokens=8, ignore_eos=True))
    assert len(heard) == 1
    assert (report.ended, report.best.branch) == ("decided", 0)
    assert [a.problem for a in report.answers[1:]] == ["not judged: the others were enough"] * 3
    assert len({a.token_ids for a in report.answers}) == 4
    assert all(a.completion is not None for a in report.answers)


def test_a_search_is_named_once(llm):
    with pytest.raises(BadRequest, match="stands beside the spec, which has a search of its own"):
        llm.best("hello", BestOf(n=2, verifier=Regex("x")), PARAMS, search=Beam())


SPECS = [
    BestOf(n=4, verifier=MeanLogprob()),
    BestOf(n=6, verifier=Function(lambda prompt, text: len(text) > 3)),
    BestOf(n=3, verifier=Regex("x"), budget_tokens=12),
    BestOf(n=5, verifier=Majority(Regex("."))),
    BestOf(Beam(width=4), n=3, verifier=Regex("e")),
]


@pytest.mark.parametrize("spec", SPECS, ids=range(len(SPECS)))
@pytest.mark.parametrize("is_chat", [False, True])
def test_the_asyncio_door_reports_the_same(llm, spec, is_chat):
    params = DecodingParams(max_tokens=20, seed=11, ignore_eos=True, stop=("a", "e"))
    params = params if spec.searched is None else params.replace(seed=None)
    watched, watched_later = [], []
    asked = [{"role": "user", "content": "hello"}] if is_chat else "hello"
    other = AsyncLLM.of(llm)
    blocking, waiting = (llm.best_chat, other.best_chat) if is_chat else (llm.best, other.best)
    report = blocking(asked, spec, params, watch=watched.append)
    later = asyncio.run(waiting(asked, spec, params, watch=watched_later.append))
    assert _facts(later) == _facts(report)
    assert [each.branch for each in watched_later] == [each.branch for each in watched]


def _facts(report):
    told = [(a.branch, a.text, a.token_ids, a.verdict, a.problem) for a in report.answers]
    return told, report.votes, report.n_tokens, report.ended, report.seed


def test_a_verifier_that_takes_long_does_not_hold_up_the_loop(llm):
    began, ends = threading.Event(), threading.Event()

    def slow(prompt, text):
        began.set()
        ends.wait()
        return 1.0

    async def ask():
        door = AsyncLLM.of(llm)
        judged = asyncio.create_task(door.best("hello", BestOf(n=2, verifier=Function(slow)), PARAMS))
        await asyncio.to_thread(began.wait)
        beside = await door.generate("other", PARAMS)  # while a verdict is being found
        assert not judged.done()
        ends.set()
        return beside, await judged

    beside, report = asyncio.run(ask())
    assert beside.token_ids == llm.generate("other", PARAMS).token_ids
    assert len(report.answers) == 2


def test_cancelling_ends_the_answers(llm):
    async def ask():
        began = asyncio.Event()
        endless = DecodingParams(max_tokens=None, seed=5, ignore_eos=True, stop=("a",))
        spec = BestOf(n=4, verifier=Function(lambda prompt, text: 0.0))
        door = AsyncLLM.of(llm)
        judged = asyncio.create_task(door.best("hello", spec, endless, watch=lambda _: began.set()))
        await began.wait()
        judged.cancel()
        with pytest.raises(asyncio.CancelledError):
            await judged

    asyncio.run(ask())


def test_an_error_of_every_verdict_is_raised_at_both_doors(llm):
    def fails(prompt, text):
        raise VerifierError("nobody answers")

    spec = BestOf(n=2, verifier=Function(fails))
    with pytest.raises(VerifierError, match="nobody answers"):
        llm.best("hello", spec, PARAMS)
    with pytest.raises(VerifierError, match="nobody answers"):
        asyncio.run(AsyncLLM.of(llm).best("hello", spec, PARAMS))
