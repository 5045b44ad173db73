"""Deadlines: a request ends as it stands when its time is over, wherever it is. The clock is the test's."""

from __future__ import annotations

import pytest
from toy_engine import LETTERS, Told, alone, drain

from unspool.engine.engine import Engine
from unspool.engine.limits import Limits
from unspool.params import DecodingParams
from unspool.runners.toy import ToyRunner
from unspool.search.beam import Beam
from unspool.search.beam_sample import BeamSample
from unspool.types import Request

GREEDY = DecodingParams(temperature=0, max_tokens=20, ignore_eos=True)


class Ticking:
    """A clock that moves on by `step_s` with every forward pass, and not by itself."""

    def __init__(self, step_s=1.0):
        self.now_s = 100.0
        self.step_s = step_s

    def __call__(self):
        return self.now_s

    def runner(self):
        clock = self

        class Runner(ToyRunner):
            def forward(self, plan):
                clock.now_s += clock.step_s
                return super().forward(plan)

        return Runner()


def engine_of(clock, **limits):
    return Engine(clock.runner(), LETTERS, limits=Limits(**limits), clock=clock)


def ask(engine, prompt, params):
    return engine.add(Request(tuple(prompt), params))


def test_an_answer_ends_when_its_time_is_over_and_keeps_what_was_written():
    engine = engine_of(Ticking())
    told = {ask(engine, [1, 2], GREEDY.replace(deadline_s=5)): Told()}
    drain(engine, told)
    assert told[0].last.finish_reason == "deadline"
    assert told[0].last.stop is None
    assert told[0].token_ids == alone([1, 2], GREEDY).token_ids[:5]
    assert told[0].last.usage.completion_tokens == 5


def test_what_was_held_back_for_a_stop_comes_out_at_the_deadline():
    free = alone([1, 2], GREEDY)
    engine = engine_of(Ticking())
    request_id = ask(engine, [1, 2], GREEDY.replace(deadline_s=4, stop=free.text[:12]))
    told = {request_id: Told()}
    drain(engine, told)
    assert told[request_id].token_ids == free.token_ids[:4]


def test_a_request_that_waits_in_the_queue_ends_there():
    engine = engine_of(Ticking(), n_tasks=1, n_rows=8)
    first = ask(engine, [1, 2], GREEDY)
    second = ask(engine, [1, 2], GREEDY.replace(deadline_s=3))
    told = {first: Told(), second: Told()}
    drain(engine, told)
    assert (told[second].last.finish_reason, told[second].token_ids) == ("deadline", ())
    assert (told[first].last.finish_reason, len(told[first].token_ids)) == ("length", 20)


def test_a_long_prompt_is_given_up_half_read():
    engine = engine_of(Ticking(), n_rows=4, n_tasks=4)
    request_id = ask(engine, [1] * 30, GREEDY.replace(deadline_s=2.5))
    told = {request_id: Told()}
    drain(engine, told)
    assert told[request_id].last.finish_reason == "deadline"
    assert engine.runner.n_forwards == 3
    assert engine.pool.n_live == 0


def test_a_request_that_ends_in_time_is_not_late():
    engine = engine_of(Ticking())
    told = {ask(engine, [1, 2], GREEDY.replace(deadline_s=20.5)): Told()}
    drain(engine, told)
    assert told[0].last.finish_reason == "length"


def test_a_deadline_comes_before_min_tokens():
    engine = engine_of(Ticking())
    told = {ask(engine, [1, 2], GREEDY.replace(deadline_s=2, min_tokens=10)): Told()}
    drain(engine, told)
    assert told[0].last.finish_reason == "deadline"


def test_the_news_of_a_deadline_is_not_lost_when_the_forward_pass_fails():
    clock = Ticking()
    engine = engine_of(clock)
    late = ask(engine, [1, 2], GREEDY.replace(deadline_s=1))
    other = ask(engine, [3], GREEDY)
    clock.now_s += 1

    def broken(plan):
        raise ZeroDivisionError

    engine.runner.forward = broken
    assert [(e.request_id, e.finish_reason) for e in engine.step()] == [(late, "deadline")]
    with pytest.raises(ZeroDivisionError):
        engine.step()
    engine.cancel(other)
    assert engine.is_idle


def test_times_are_read_from_the_clock_that_was_given():
    engine = engine_of(Ticking(step_s=0.5))
    told = {ask(engine, [1, 2], GREEDY): Told()}
    drain(engine, told)
    usage = told[0].last.usage
    assert (usage.ttft_ms, usage.prefill_s, usage.decode_s) == (500.0, 0.5, 9.5)


@pytest.mark.parametrize(("search", "seed"), [(None, 3), (BeamSample(width=2), 3), (Beam(width=2), None)])
def test_an_answer_without_a_token_has_a_seed_only_where_some_would_have_been_drawn(search, seed):
    clock = Ticking()
    engine = engine_of(clock)
    request_id = engine.add(
        Request((1, 2), DecodingParams(max_tokens=5, seed=seed, deadline_s=0.5), search=search)
    )
    clock.now_s += 1.0
    (event,) = engine.step()
    assert (event.request_id, event.finish_reason, event.token_ids) == (request_id, "deadline", ())
    assert event.seed == seed
