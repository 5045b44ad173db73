"""What an engine counts, times and tells its logger. The clock is the test's."""

from __future__ import annotations

import json
import logging

import pytest
from toy_engine import LETTERS, Told, drain, make_engine

from unspool.engine.engine import Engine
from unspool.engine.limits import Limits
from unspool.logits import pipeline
from unspool.logits.standing import StandingRows
from unspool.params import DecodingParams
from unspool.runners.toy import ToyRunner
from unspool.types import InterToken, Request

GREEDY = DecodingParams(temperature=0, max_tokens=6, ignore_eos=True)
PAGE = 4


class Clock:
    """Stands still but for what the test lets pass: a forward pass of 2 s and a pipeline of 0.5 s."""

    def __init__(self, monkeypatch):
        self.now_s = 100.0
        for where, name in ((pipeline, "process"), (StandingRows, "choose")):
            monkeypatch.setattr(where, name, self.slowed(getattr(where, name)))

    def __call__(self):
        return self.now_s

    def slowed(self, function):
        def slow(*args, **kwargs):
            self.now_s += 0.5
            return function(*args, **kwargs)

        return slow

    def engine(self, **settings):
        clock = self

        class Runner(ToyRunner):
            def forward(self, plan):
                clock.now_s += 2.0
                return super().forward(plan)

        runner = Runner(**{"page_size": PAGE, "n_pages": 64, **settings})
        return Engine(runner, LETTERS, clock=clock)


def ask(engine, prompt, params=GREEDY, **fields):
    return engine.add(Request(tuple(prompt), params, **fields))


def finish(engine, *request_ids):
    told = {request_id: Told() for request_id in request_ids}
    drain(engine, told)
    return [told[request_id].last.usage for request_id in request_ids]


def out_of_order(plan):
    raise RuntimeError("out of order")


def adds_up(stats):
    return stats.n_pages_free + stats.n_pages_cached + stats.n_pages_live == stats.n_pages


def test_a_new_engine_has_counted_nothing():
    stats = make_engine(n_pages=8).stats()
    assert (stats.n_running, stats.n_waiting, stats.n_steps, stats.tokens_decoded) == (0, 0, 0, 0)
    assert (stats.n_pages, stats.n_pages_free) == (8, 8)
    assert set(stats.finished.values()) == {0}
    assert stats.overhead == stats.hit_rate == stats.step_s == 0.0


def test_gauges_say_what_runs_waits_and_is_held():
    engine = make_engine(page_size=PAGE, n_pages=64, n_tasks=1)
    first, second = ask(engine, [1, 2, 3]), ask(engine, [2, 3])
    assert (engine.stats().n_running, engine.stats().n_waiting) == (0, 2)
    engine.step()
    stats = engine.stats()
    assert (stats.n_running, stats.n_waiting, stats.n_pages_live) == (1, 1, 1)
    assert adds_up(stats)
    finish(engine, first, second)
    stats = engine.stats()
    assert (stats.n_running, stats.n_waiting, stats.n_pages_live) == (0, 0, 0)
    assert stats.n_pages_cached == stats.n_pages_in_tree > 0
    assert adds_up(stats)


def test_the_time_of_a_step_is_split_into_its_parts(monkeypatch):
    engine = Clock(monkeypatch).engine()
    finish(engine, ask(engine, [1, 2, 3]))
    stats = engine.stats()
    assert stats.n_steps == 6
    assert (stats.plan_s, stats.forward_s, stats.pipeline_s, stats.commit_s) == (0.0, 12.0, 3.0, 0.0)
    assert stats.overhead == pytest.approx(0.2)


def test_a_step_that_failed_is_not_timed(monkeypatch):
    engine = Clock(monkeypatch).engine()
    request_id = ask(engine, [1, 2, 3])
    with monkeypatch.context() as patch:
        patch.setattr(engine.runner, "forward", out_of_order)
        with pytest.raises(RuntimeError):
            engine.step()
    assert (engine.stats().n_steps, engine.stats().step_s, engine.stats().tokens_read) == (0, 0.0, 0)
    finish(engine, request_id)
    assert engine.stats().n_steps == 6
    assert engine.stats().step_s == pytest.approx(15.0)


def test_tokens_are_counted_as_read_found_and_decoded():
    engine = make_engine(page_size=PAGE, n_pages=64)
    finish(engine, ask(engine, [1] * 9))
    stats = engine.stats()
    assert (stats.tokens_read, stats.tokens_found, stats.tokens_decoded) == (9, 0, 6)
    (usage,) = finish(engine, ask(engine, [1] * 9))
    stats = engine.stats()
    assert usage.cached_tokens == 8
    assert (stats.tokens_read, stats.tokens_found, stats.tokens_decoded) == (10, 8, 12)
    assert stats.hit_rate == pytest.approx(8 / 18)
    assert (stats.n_added, stats.finished["length"], stats.tokens_reread) == (2, 2, 0)


def test_each_of_n_answers_is_counted_by_why_it_ended():
    engine = make_engine(n_pages=64)
    ask(engine, [1, 2], n=3)
    cancelled = ask(engine, [3, 1])
    engine.step()
    engine.cancel(cancelled)
    while not engine.is_idle:
        engine.step()
    stats = engine.stats()
    assert (stats.n_added, stats.finished["length"], stats.finished["cancelled"]) == (2, 3, 1)
    assert sum(stats.finished.values()) == 4


def test_what_is_read_again_after_a_preemption_is_counted_apart():
    """Two requests that both fit at first and grow out of the pages; the tree has to give up some of them."""
    runner = ToyRunner(page_size=PAGE, n_pages=6)
    engine = Engine(runner, LETTERS, limits=Limits(n_rows=64, n_tasks=4))
    long = GREEDY.replace(max_tokens=12)
    usages = finish(engine, ask(engine, [1, 2, 3, 4], long), ask(engine, [2, 3, 4, 5], long))
    stats = engine.stats()
    assert stats.n_preemptions == sum(usage.n_preempted for usage in usages) > 0
    assert stats.tokens_reread == sum(usage.reread_tokens for usage in usages) > 0
    assert stats.tokens_read == 8, "each prompt was read once for the first time"


def test_what_a_request_read_itself_before_a_preemption_was_not_cached_for_it():
    engine = make_engine(page_size=PAGE, n_pages=64, n_rows=8)
    request_id = ask(engine, [1, 2, 3, 4] * 6)
    engine.step()
    engine._scheduler._preempt(engine._tasks[request_id])
    (usage,) = finish(engine, request_id)
    assert (usage.cached_tokens, usage.n_preempted, usage.reread_tokens) == (0, 1, 0)
    assert engine.stats().tokens_found == 8, "its own pages were still in the tree"


def test_usage_tells_the_times_between_tokens(monkeypatch):
    engine = Clock(monkeypatch).engine()
    (usage,) = finish(engine, ask(engine, [1, 2, 3]))
    assert usage.inter_token == InterToken(5, 2500.0, 2500.0, 2500.0, 2500.0)
    assert (usage.queue_ms, usage.ttft_ms) == (0.0, 2500.0)


def test_a_wait_in_the_queue_after_a_preemption_is_a_time_between_tokens(monkeypatch):
    clock = Clock(monkeypatch)
    engine = clock.engine()
    request_id = ask(engine, [1, 2, 3])
    engine.step()
    engine.step()
    engine._scheduler._preempt(engine._tasks[request_id])
    clock.now_s += 10
    (usage,) = finish(engine, request_id)
    assert usage.inter_token.p50_ms == 2500.0
    assert usage.inter_token.max_ms == 12500.0


def test_stats_are_plain_values_for_json():
    engine = make_engine(n_pages=8)
    finish(engine, ask(engine, [1, 2]))
    told = json.loads(json.dumps(engine.stats().to_dict()))
    assert told["n_added"] == 1
    assert told["finished"]["length"] == 1
    with pytest.raises(TypeError):
        engine.stats().finished["length"] = 0


def records(caplog):
    return [record.unspool for record in caplog.records if record.name == "unspool"]


def test_a_request_leaves_a_record_of_each_event_with_plain_values(caplog):
    engine = make_engine(page_size=PAGE, n_pages=64)
    with caplog.at_level(logging.DEBUG, logger="unspool"):
        request_id = ask(engine, [1, 2, 3])
        engine.step()
        engine._scheduler._preempt(engine._tasks[request_id])
        (usage,) = finish(engine, request_id)
    heard = records(caplog)
    assert [r["event"] for r in heard] == [
        "request.added",
        "request.started",
        "request.preempted",
        "request.finished",
    ]
    assert json.loads(json.dumps(heard)) == heard
    assert {r["request_id"] for r in heard} == {request_id}
    assert heard[0]["prompt_tokens"] == 3
    assert heard[2]["dropped_tokens"] == 3
    assert (heard[3]["reason"], heard[3]["completion_tokens"]) == ("length", 6)
    assert heard[3]["inter_token"]["n"] == usage.inter_token.n


def test_nothing_is_said_below_the_level_that_is_listened_to(caplog, capsys):
    engine = make_engine(n_pages=64)
    with caplog.at_level(logging.WARNING, logger="unspool"):
        finish(engine, ask(engine, [1, 2, 3]))
    assert records(caplog) == []
    assert capsys.readouterr().err == ""


def test_a_filter_that_raises_fails_no_request(caplog, capsys):
    class Broken(logging.Filter):
        def filter(self, record):
            raise RuntimeError("no")

    logger, broken = logging.getLogger("unspool"), Broken()
    logger.addFilter(broken)
    try:
        with caplog.at_level(logging.DEBUG, logger="unspool"):
            engine = make_engine(n_pages=64)
            (usage,) = finish(engine, ask(engine, [1, 2, 3]))
    finally:
        logger.removeFilter(broken)
    assert usage.completion_tokens == 6
    assert "RuntimeError: no" in capsys.readouterr().err


def test_an_idle_engine_notices_a_page_that_does_not_add_up():
    engine = make_engine(page_size=PAGE, n_pages=8)
    request_id = ask(engine, [1, 2, 3])
    engine.step()
    engine.pool._free.pop()  # lost
    with pytest.raises(AssertionError, match="are not 8"):
        engine.cancel(request_id)
