"""A page that cannot be copied. For a fork: its request ends with an error, and nothing else notices. For a
request that has found the beginning of its text: it reads what was in the page, and nobody notices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from toy_engine import LETTERS, ToyAmateur, drain, make_engine
from toy_engine import Told as Answer

from unspool import Beam, DecodingParams, DiverseBeam, StochasticBeam
from unspool.engine.engine import Engine
from unspool.errors import CapacityError
from unspool.types import Request

GREEDY = DecodingParams(temperature=0, max_tokens=9, ignore_eos=True)
DRAWN = DecodingParams(seed=3, max_tokens=9, ignore_eos=True)
PROMPT = (1, 2, 3, 1, 2)  # a page and a token: every fork has a page to copy
OTHERS = (
    Request((2, 2, 1), GREEDY),
    Request((3, 1), DRAWN, n=2),
    Request((1, 1, 3), GREEDY, search=Beam(width=2)),
)

REQUESTS = {
    "several answers": Request(PROMPT, DRAWN, n=3),
    "guided": Request(PROMPT, DRAWN.replace(guidance_scale=1.5, negative_prompt=(2, 1)), n=3),
    "contrasted": Request(PROMPT, DRAWN.replace(contrast_beta=0.5), n=3),
    "beam": Request(PROMPT, GREEDY, search=Beam(width=4, n_best=3)),
    "groups of beams": Request(PROMPT, GREEDY, search=DiverseBeam(width=4, groups=2)),
    "stochastic beam": Request(PROMPT, DRAWN, search=StochasticBeam(k=4)),
    "nothing kept": Request(PROMPT, DRAWN, n=3, use_cache=False),
}


class Copies:
    """Of both models; the one of that number fails, if there is such."""

    def __init__(
        self, engine: Engine, error: Callable[[], BaseException], fails_at: int | None = None
    ) -> None:
        self.n_done = 0
        self._error = error
        self._fails_at = fails_at
        for runner in engine.storage.runners:
            runner.copy_page = self._instead_of(runner.copy_page)

    def _instead_of(self, copy_page):
        def copy(source, target):
            if self.n_done == self._fails_at:
                self._fails_at = None
                raise self._error()
            self.n_done += 1
            copy_page(source, target)

        return copy


def open_engine() -> Engine:
    return make_engine(n_pages=200, amateur=ToyAmateur(vocab_size=LETTERS.vocab_size, n_pages=200))


def all_told(engine: Engine, requests) -> list[dict[int, Answer]]:
    """Of each request what its branches tell, run side by side, the pages checked after every step."""
    told = {engine.add(request): {} for request in requests}
    while not engine.is_idle:
        for event in engine.step():
            told[event.request_id].setdefault(event.branch, Answer()).hear(event)
        engine.check()
    return list(told.values())


def results(told: dict[int, Answer]) -> dict[int, tuple]:
    return {branch: answer.result for branch, answer in told.items()}


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize(
    "error",
    [partial(MemoryError, "none left"), partial(CapacityError, "no page", code="forked")],
    ids=["none left", "no page"],
)
def test_the_request_ends_with_an_error_and_the_others_do_not_notice(
    name: str, error: Callable[[], BaseException]
) -> None:
    request = REQUESTS[name]
    alone = open_engine()
    copies = Copies(alone, error)
    (whole,) = all_told(alone, [request])
    expected = [results(*all_told(open_engine(), [other])) for other in OTHERS]
    assert copies.n_done > 1
    for fails_at in range(copies.n_done):
        engine = open_engine()
        Copies(engine, error, fails_at)
        first = engine.add(request)
        told = {}
        n_steps = 0
        while engine.is_in_flight(first):  # alone, so that the copies are its own
            for event in engine.step():
                told.setdefault(event.branch, Answer()).hear(event)
            engine.check()
            n_steps += 1
        assert told.keys() == whole.keys()
        for branch, answer in told.items():
            assert answer.last.finish_reason in ("error", "stop", "length")
            if answer.last.finish_reason == "error":
                assert answer.last.error.code in ("copy_failed", "forked")
            if request.search is None:
                assert answer.token_ids == whole[branch].token_ids[: len(answer.token_ids)]
        assert any(answer.last.error is not None for answer in told.values())
        assert engine.pool.n_live == 0
        assert [results(each) for each in all_told(engine, OTHERS)] == expected
        assert results(*all_told(engine, [request])) == results(whole)  # and so does it when asked again


@pytest.mark.parametrize("name", REQUESTS)
def test_those_beside_it_go_on_from_where_they_are(name: str) -> None:
    expected = [results(*all_told(open_engine(), [other])) for other in OTHERS]
    for fails_at in range(8):
        engine = open_engine()
        Copies(engine, MemoryError, fails_at)
        told = all_told(engine, [*OTHERS, REQUESTS[name]])
        for is_told, due in zip(told[:-1], expected, strict=True):
            if all(answer.last.error is None for answer in is_told.values()):
                assert results(is_told) == due
        assert sum(any(a.last.error is not None for a in each.values()) for each in told) <= 1
        assert engine.pool.n_live == 0


def test_a_copy_that_fails_because_it_was_interrupted_is_raised_and_holds_nothing() -> None:
    engine = open_engine()
    Copies(engine, KeyboardInterrupt, 1)
    first = engine.add(REQUESTS["several answers"])
    with pytest.raises(KeyboardInterrupt):
        drain(engine, {first: Answer()})
    engine.cancel(first)
    engine.check()
    assert engine.is_idle


BEGINNINGS = {name: request for name, request in REQUESTS.items() if name != "nothing kept"}


def break_copies_before_a_pass(engine: Engine, error: Callable[[], BaseException]) -> list[BaseException]:
    """Every copy of both models fails until one of them has run; the errors, as they are raised."""
    raised = []
    runners = engine.storage.runners

    def broken(source, target):
        raised.append(error())
        raise raised[-1]

    def mended(plan):
        for runner in runners:
            vars(runner).pop("copy_page", None)
            vars(runner).pop("forward", None)
        return forward(plan)

    forward = runners[0].forward
    for runner in runners:
        runner.copy_page = broken
    runners[0].forward = mended
    return raised


@pytest.mark.parametrize("name", BEGINNINGS)
def test_a_page_that_was_found_and_cannot_be_copied_is_read_and_nobody_notices(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    request = BEGINNINGS[name]
    longer = replace(request, prompt_ids=(*request.prompt_ids, 3))  # it finds a page and a part of one
    requests = [longer, *OTHERS]
    expected = [results(*all_told(open_engine(), [each])) for each in requests]
    engine = open_engine()
    all_told(engine, [request, *OTHERS])
    raised = break_copies_before_a_pass(engine, partial(MemoryError, "none left"))
    caplog.clear()
    told = all_told(engine, requests)
    assert [results(each) for each in told] == expected
    assert told[0][0].last.usage.cached_tokens == 4
    n_raised = len(OTHERS) + 1 + (name in ("guided", "contrasted"))
    assert len(raised) == n_raised
    heard = [each.unspool for each in caplog.records]
    assert [each["error"] for each in heard] == [repr(error) for error in raised]
    assert {each["event"] for each in heard} == {"request.not_copied"}
    assert engine.pool.n_live == 0
    assert all_told(engine, [longer])[0][0].last.usage.cached_tokens == 5  # and is known from now on


def test_a_copy_of_what_was_found_that_is_interrupted_is_raised_and_holds_nothing() -> None:
    engine = open_engine()
    request = Request(PROMPT, GREEDY)
    all_told(engine, [request])
    raised = break_copies_before_a_pass(engine, KeyboardInterrupt)
    first = engine.add(replace(request, prompt_ids=(*PROMPT, 3)))
    with pytest.raises(KeyboardInterrupt):
        engine.step()
    assert len(raised) == 1
    assert engine.pool.n_live == 0
    engine.cancel(first)
    engine.check()
    assert engine.is_idle
