"""Who is let in, who is put back, and that whoever was let in can go on."""

from __future__ import annotations

import contextlib
import dataclasses

import pytest
from toy_engine import LETTERS, Told, make_engine

from unspool.engine.engine import Engine
from unspool.engine.limits import Limits
from unspool.engine.task import Phase
from unspool.errors import BadRequest, CapacityError
from unspool.params import DecodingParams
from unspool.runners.toy import ToyRunner
from unspool.search.base import Advance
from unspool.search.beam import Beam
from unspool.types import Chosen, Extend, Fork, Request

PARAMS = DecodingParams(temperature=1.5, max_tokens=9, ignore_eos=True, seed=1)


def engine_of(n_pages, *, page_size=4, context_length=256, **limits):
    runner = ToyRunner(n_pages=n_pages, page_size=page_size, context_length=context_length)
    return Engine(runner, LETTERS, limits=Limits(**limits))


def run_all(engine, requests):
    """{request id: {branch: Told}}; every request makes progress in a bounded number of steps."""
    told = {engine.add(request): {} for request in requests}
    for _ in range(2000):
        if engine.is_idle:
            return told
        for event in engine.step():
            told[event.request_id].setdefault(event.branch, Told()).hear(event)
        engine.check()
    raise AssertionError("the engine does not come to an end")


def results(told):
    return [{branch: t.result for branch, t in of_one.items()} for of_one in told.values()]


def alone(requests):
    return [results(run_all(engine_of(1000), [request]))[0] for request in requests]


@pytest.mark.parametrize("n_preemptions", [0, 1, 3])
@pytest.mark.parametrize("n_pages", [8, 9, 12, 20])
def test_requests_that_outgrow_the_pool_together_all_come_to_their_ends(n_pages, n_preemptions):
    requests = [Request((i % 7 + 1,) * (i + 2), PARAMS.replace(seed=i), n=1 + i % 2) for i in range(9)]
    told = run_all(engine_of(n_pages, n_preemptions=n_preemptions), requests)
    assert results(told) == alone(requests)
    n_preempted = [t.last.usage.n_preempted for of_one in told.values() for t in of_one.values()]
    assert max(n_preempted) <= n_preemptions


@pytest.mark.parametrize("n_prompt", [7, 8, 9])
def test_answers_that_fit_only_because_they_share_the_prompt_fit_after_they_were_put_back(n_prompt):
    request = Request(tuple(range(1, 8)) + (1,) * (n_prompt - 7), PARAMS.replace(max_tokens=6), n=3)
    engine = engine_of({7: 1 + 3 * 2, 8: 2 + 3 * 2, 9: 2 + 3 * 2}[n_prompt])
    told = {engine.add(request): {}}
    n_steps = 0
    while not engine.is_idle:
        for event in engine.step():
            told[0].setdefault(event.branch, Told()).hear(event)
        engine.check()
        n_steps += 1
        if n_steps in (2, 4):
            engine._scheduler._preempt(engine._scheduler._running[0])
        assert n_steps < 60
    assert results(told) == alone([request])
    assert told[0][0].last.usage.n_preempted == 2


def test_the_forks_of_a_prompt_wait_until_there_are_pages_for_them():
    engine = engine_of(8)
    requests = [
        Request((1,) * 9, PARAMS.replace(max_tokens=8)),
        Request((2,) * 5, PARAMS.replace(max_tokens=4), n=4),
    ]
    assert results(run_all(engine, requests)) == alone(requests)


def test_more_answers_than_a_step_has_rows_are_refused():
    engine = engine_of(64, n_rows=4, n_tasks=2)
    for n in (0, -1, 1.0, True):
        with pytest.raises(BadRequest, match="n must be a whole number, at least 1"):
            engine.add(Request((1,), PARAMS, n=n))
    with pytest.raises(BadRequest, match=r"Sample may have 5 branches at once.* has 4;"):
        engine.add(Request((1,), PARAMS, n=5))
    with pytest.raises(BadRequest, match="Beam may have 6 branches at once"):
        engine.add(Request((1,), PARAMS.replace(temperature=0, seed=None), search=Beam(width=6)))
    assert len(run_all(engine, [Request((1,), PARAMS, n=4)])[0]) == 4


def test_no_one_is_put_back_for_a_request_that_has_no_room_even_so():
    engine = engine_of(16)
    low, equal = Request((1,) * 8, PARAMS, priority=0), Request((2,) * 36, PARAMS, priority=1)
    told = {engine.add(low): {}, engine.add(equal): {}}
    engine.step()
    told[engine.add(Request((3,) * 24, PARAMS, priority=1))] = {}
    while not engine.is_idle:
        for event in engine.step():
            told[event.request_id].setdefault(event.branch, Told()).hear(event)
    assert told[0][0].last.usage.n_preempted == 0


def test_who_is_more_urgent_takes_the_place_of_the_least_urgent_that_loses_least():
    engine = engine_of(16)
    for n, priority in ((20, 0), (12, 0), (8, 1)):
        engine.add(Request((n % 7 + 1,) * n, PARAMS.replace(max_tokens=3), priority=priority))
    engine.step()
    engine.add(Request((5,) * 18, PARAMS, priority=2))
    engine.step()
    assert [task.n_preempted for task in engine._tasks.values()] == [0, 1, 0, 0]


def test_a_request_in_no_queue_is_a_mistake():
    engine = make_engine()
    engine.add(Request((1,), PARAMS))
    task = engine._tasks[0]
    engine._scheduler.remove(task)
    with pytest.raises(AssertionError, match="request 0 is in no queue"):
        engine._scheduler.remove(task)


def test_what_a_request_read_itself_does_not_count_as_cached():
    engine = engine_of(32, n_rows=8, n_tasks=4)
    told = {engine.add(Request((1, 2, 3, 4) * 4, PARAMS)): Told()}
    engine.step()
    engine._scheduler._preempt(engine._scheduler._running[0])
    while not engine.is_idle:
        for event in engine.step():
            told[event.request_id].hear(event)
    assert told[0].last.usage.n_preempted == 1
    assert told[0].last.usage.cached_tokens == 0


def test_a_request_without_the_cache_takes_nothing_from_it_leaves_nothing_and_shares_with_itself():
    engine = engine_of(32)
    run_all(engine, [Request((1,) * 12, PARAMS)])
    n_kept = engine.storage.tree.n_pages
    told = run_all(engine, [Request((1,) * 12, PARAMS, n=2, use_cache=False)])
    assert told[1][0].last.usage.cached_tokens == 0
    assert engine.storage.tree.n_pages == n_kept
    request_id = engine.add(Request((1,) * 12, PARAMS, n=2, use_cache=False))
    for _ in range(3):
        engine.step()
    engine._scheduler._preempt(engine._scheduler._running[0])
    n_forwards = engine.runner.n_forwards
    engine.step()
    assert (engine.runner.n_forwards - n_forwards, engine.pool.n_live) == (1, 3 + 2)
    engine.cancel(request_id)
    assert engine.storage.tree.n_pages == n_kept
    engine.check()


def test_an_engine_without_the_cache_keeps_no_pages_of_what_has_ended():
    engine = Engine(ToyRunner(), LETTERS, prefix_cache=False)
    run_all(engine, [Request((1, 2, 3, 4, 5), PARAMS)])
    assert (engine.pool.n_free, engine.storage.tree._roots) == (16, {})


@dataclasses.dataclass(frozen=True)
class Growing:
    """A fork of branch 0 whenever there is a place for one, and of a tight pool the last page."""

    max_branches: int = 3
    step: int = 1  # tokens that the others grow by at once

    n_first = 1
    n_answers = 1
    forks_later = True
    draws = True
    wants_candidates = False
    n_candidates = None
    is_ranked = False

    def check(self, params):
        """Everything has a meaning here."""

    def start(self):
        return 0

    def advance(self, state, rows, processed):
        moves = []
        if state % 3 == 1 and len(rows) < self.max_branches and rows[0].branch == 0:
            moves = [Fork(0, state), Extend(state, (Chosen(1),))]
        for row in rows:
            moves.append(Extend(row.branch, (Chosen(1),) * (self.step if row.branch else 1)))
        return Advance(state + 1, tuple(moves))


@pytest.mark.parametrize("n_pages", range(6, 13))
def test_a_branch_that_is_born_late_finds_its_page(n_pages):
    engine = engine_of(n_pages)
    requests = [Request((i,) * (3 + i), PARAMS.replace(max_tokens=8)) for i in (2, 3, 4)]
    heard = {}
    added = []
    for request in requests:
        with contextlib.suppress(CapacityError):
            added.append(engine.add(dataclasses.replace(request, search=Growing(3))))
            heard[added[-1]] = {}
    while not engine.is_idle:
        for event in engine.step():
            heard[event.request_id].setdefault(event.branch, Told()).hear(event)
        engine.check()
    assert added or n_pages < 9
    assert all(
        told.token_ids[-1] == 1 and len(of_one) == 3 for of_one in heard.values() for told in of_one.values()
    )


def test_a_branch_does_not_wait_for_a_shorter_one_that_has_been_read():
    """Both write the same, so that the longer begins with all of the shorter, whose last page is never whole
    while it waits for the other."""
    engine = engine_of(32, n_preemptions=100)
    engine.add(Request((1, 1, 1), PARAMS.replace(max_tokens=20), search=Growing(2, step=2)))
    n_steps = n_put_back = 0
    while not engine.is_idle:
        engine.step()
        engine.check()
        n_steps += 1
        task = engine._tasks.get(0)
        is_whole = task and len(task.branches) == 2 and len(task.branches[0].token_ids) % 4 == 0
        if is_whole and task.phase is Phase.DECODE and n_put_back < 8:
            n_put_back += 1
            engine._scheduler._preempt(task)
            engine.storage.tree.clear()
        assert n_steps < 200
    assert n_put_back == 8
