"""The four moves, made by searches that fork, drop and finish."""

from __future__ import annotations

import dataclasses

import pytest
from toy_engine import Told, make_engine

from unspool.engine.task import NEXT_PHASES, Phase
from unspool.params import DecodingParams
from unspool.search.base import Advance
from unspool.types import Chosen, Drop, Extend, Finish, Fork, Request

PARAMS = DecodingParams(temperature=0, max_tokens=30, ignore_eos=True)


@dataclasses.dataclass
class Scripted:
    """A search that makes the moves written down for each step, then extends every branch by token 1."""

    script: dict[int, tuple]
    max_branches: int = 4
    wants_candidates: bool = True
    n_candidates: int | None = None
    forks_later: bool = True
    draws: bool = True
    n_first: int = 1
    n_answers: int = 1
    n_steps: int = 0
    seen: list = dataclasses.field(default_factory=list)

    is_ranked = False

    def check(self, params):
        """Everything has a meaning here."""

    def start(self):
        return None

    def advance(self, state, rows, processed):
        self.seen.append(
            {
                row.branch: (list(row.token_ids), p.candidates.logits.astype("f4"))
                for row, p in zip(rows, processed, strict=True)
            }
        )
        moves = self.script.get(self.n_steps)
        self.n_steps += 1
        return Advance(None, moves if moves is not None else tuple(grow(row.branch, 1) for row in rows))


def grow(branch, *token_ids):
    return Extend(branch, tuple(map(Chosen, token_ids)))


def start(script, prompt=(1, 2, 3, 4, 5), **settings):
    engine = make_engine(**{"n_pages": 64, **settings})
    search = Scripted(script)
    request_id = engine.add(Request(tuple(prompt), PARAMS, search=search))
    return engine, engine._tasks[request_id], search


def finish(engine):
    told = {}
    while not engine.is_idle:
        for event in engine.step():
            told.setdefault(event.branch, Told()).hear(event)
        engine.check()
    return told


@pytest.mark.parametrize("n_prompt", [3, 4, 5, 8])
def test_a_forked_branch_sees_its_own_history_on_shared_pages(n_prompt):
    script = {
        0: (Fork(0, 1), grow(0, 2), grow(1, 3)),
        2: (Fork(1, 2), grow(0, 4), grow(1, 5), grow(2, 6)),
        9: (Finish(0, "stop"), Finish(1, "stop"), Finish(2, "stop")),
    }
    engine, _, search = start(script, prompt=(7,) * n_prompt)
    told = finish(engine)
    assert told[0].token_ids == (2, 1, 4, 1, 1, 1, 1, 1, 1)
    assert told[1].token_ids == (3, 1, 5, 1, 1, 1, 1, 1, 1)
    assert told[2].token_ids == (6, 1, 1, 1, 1, 1, 1)  # what it shares with branch 1 was told there
    for step in search.seen:
        for token_ids, logits in step.values():
            assert logits.tobytes() == engine.runner.logits_of(token_ids).tobytes()


def test_a_dropped_branch_frees_its_pages_and_tells_nothing_more():
    script = {
        0: (Fork(0, 1), grow(0, 2), grow(1, 3)),
        1: (Drop(0), grow(1, 4)),
        3: (Finish(1, "length"),),
    }
    engine, task, _ = start(script)
    told = {}
    for _ in range(2):
        for event in engine.step():
            told.setdefault(event.branch, Told()).hear(event)
        engine.check()
    assert list(task.branches) == [1]
    assert engine.pool.n_live == 2
    told[1] = finish(engine)[1]
    assert told[0].last is None
    assert told[1].last.finish_reason == "length"
    assert engine.pool.n_live == 0


def test_several_tokens_at_once_stop_at_the_first_that_ends_the_text():
    engine, _, _ = start({0: (grow(0, 1, 2, 0, 3),)})
    engine._tasks[0].branches[0].transcript._rules = dataclasses.replace(
        engine._tasks[0].branches[0].transcript._rules, ids=frozenset({0})
    )
    told = finish(engine)[0]
    assert (told.token_ids, told.last.finish_reason, told.last.stop) == ((1, 2), "stop", 0)


def test_the_length_limit_holds_inside_several_tokens_at_once():
    engine, task, _ = start({0: (grow(0, 1, 2, 3, 4),)})
    task.n_new_max = 3
    assert finish(engine)[0].token_ids == (1, 2, 3)


def test_a_search_may_not_have_more_branches_than_it_promised():
    engine, task, _ = start({0: (Fork(0, 1), Fork(0, 2))})
    task.search.max_branches = 2
    with pytest.raises(AssertionError, match="more branches than pages were promised for"):
        engine.step()


def test_a_branch_that_lives_cannot_be_born_again():
    engine, _, _ = start({0: (Fork(0, 0),)})
    with pytest.raises(AssertionError, match="branch 0 is alive"):
        engine.step()


def test_cancelling_ends_every_branch():
    engine, _, _ = start({0: (Fork(0, 1), grow(0, 2), grow(1, 3))})
    engine.step()
    events = engine.cancel(0)
    assert [(event.branch, event.finish_reason) for event in events] == [(0, "cancelled"), (1, "cancelled")]
    engine.check()
    assert engine.is_idle


def test_phases_move_only_as_the_table_says():
    _, task, _ = start({})
    assert task.phase is Phase.WAITING
    with pytest.raises(AssertionError, match="cannot go from waiting to decode"):
        task.move_to(Phase.DECODE)
    task.move_to(Phase.PREFILL)
    task.move_to(Phase.DECODE)
    with pytest.raises(AssertionError, match="cannot go from decode to prefill"):
        task.move_to(Phase.PREFILL)
    task.move_to(Phase.DONE)
    assert not NEXT_PHASES[Phase.DONE]
    assert set(NEXT_PHASES) == set(Phase)
