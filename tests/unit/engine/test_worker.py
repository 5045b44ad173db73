"""One thread runs the engine: what goes in, what comes out, and what happens when things go wrong."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import weakref

import numpy as np
import pytest
from paced import LETTERS, PacedRunner, wait_until
from processes import in_a_process

from unspool import LLM, DecodingParams, Limits
from unspool.engine.inbox import Gathered, Mailbox
from unspool.errors import BadRequest, CapacityError, UnspoolError
from unspool.types import Request

PARAMS = DecodingParams(temperature=0, max_tokens=20, ignore_eos=True)
LONG = PARAMS.replace(max_tokens=200)
PROMPTS = [[1, 2, 3], [1, 2, 4], [2, 1], [3, 3, 3, 3, 3]]


def open_llm(limits: Limits | None = None, **settings) -> LLM:
    return LLM.from_parts(PacedRunner(**settings), LETTERS, limits=limits)


@pytest.fixture
def llm():
    with open_llm(Limits(n_unread=64)) as llm:
        yield llm
        llm.runner.let(None)


def rest(llm: LLM) -> None:
    """After all commands before: nothing in flight, and the pages add up."""

    def look() -> None:
        llm._engine.check()
        assert llm._engine.is_idle
        assert llm._engine.pool.n_live == 0

    llm._worker.call(look)


def n_workers() -> int:
    return sum(thread.name == "unspool-worker" for thread in threading.enumerate())


def test_a_thread_is_there_from_the_first_request_to_the_end():
    before = n_workers()
    with open_llm() as llm:
        assert llm.context_length == 256
        assert n_workers() == before
        llm.generate([1], PARAMS)
        llm.generate([2], PARAMS)
        assert n_workers() == before + 1
    assert n_workers() == before
    assert llm.runner.is_closed


def test_a_model_that_nobody_holds_any_more_ends_its_thread():
    before = n_workers()
    llm = open_llm()
    stream = llm.stream([1], LONG)
    next(stream)
    runner = weakref.ref(llm.runner)
    del llm, stream
    gc.collect()
    wait_until(lambda: n_workers() == before)
    gc.collect()
    assert runner() is None


def test_an_idle_engine_takes_no_time(llm):
    llm.generate([1], PARAMS)
    rest(llm)
    before = time.process_time()
    threading.Event().wait(0.1)
    assert time.process_time() - before < 0.05
    stream = llm.stream([1, 2], PARAMS.replace(max_tokens=200))  # and so is one whose reader does not read
    wait_until(lambda: llm._engine.is_resting)
    before = time.process_time()
    threading.Event().wait(0.1)
    assert time.process_time() - before < 0.05
    stream.close()


def test_streams_of_one_thread_run_side_by_side(llm):
    expected = [llm.generate(prompt, PARAMS).token_ids for prompt in PROMPTS]
    n_before = llm.runner.n_forwards
    llm.runner.let(0)
    streams = [llm.stream(prompt, PARAMS) for prompt in PROMPTS[:1]]
    llm.runner.is_held.wait(30)
    opening = [
        threading.Thread(target=lambda p=p: streams.append(llm.stream(p, PARAMS))) for p in PROMPTS[1:]
    ]
    for thread in opening:
        thread.start()
    wait_until(lambda: llm._model.worker._thread.commands.qsize() == 3)
    llm.runner.let(None)
    for thread in opening:
        thread.join()
    told = {tuple(i for event in stream for i in event.token_ids) for stream in streams}
    assert told == set(expected)
    assert llm.runner.n_forwards - n_before < 40  # and not 4 * 20
    rest(llm)


def test_threads_that_hammer_one_model_each_get_their_own_answer(llm):
    """Whole answers, streams that are read and streams that are left, from eight threads."""
    params = [DecodingParams(seed=seed, max_tokens=12, temperature=1.5) for seed in range(4)]
    expected = {(i, j): llm.generate(PROMPTS[i], params[j]).token_ids for i in range(4) for j in range(4)}
    wrong = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(40):
            i, j, way = rng.integers(4), rng.integers(4), rng.integers(3)
            if way == 0:
                told = llm.generate(PROMPTS[i], params[j]).token_ids
            elif way == 1:
                told = tuple(t for event in llm.stream(PROMPTS[i], params[j]) for t in event.token_ids)
            else:
                with llm.stream(PROMPTS[i], params[j]) as stream:
                    told = next(stream).token_ids
                if told != expected[i, j][: len(told)]:
                    wrong.append((i, j, told))
                continue
            if told != expected[i, j]:
                wrong.append((i, j, told))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    rest(llm)


def test_a_request_cancelled_in_any_phase_a_thousand_times_leaves_no_page():
    """Few pages and few places, so that requests also wait, are preempted and are paused."""
    llm = open_llm(Limits(n_rows=16, n_tasks=3, n_unread=2), n_pages=30)
    rng = np.random.default_rng(3)
    with llm:
        expected = llm.generate(PROMPTS[3], PARAMS).token_ids
        kept = []
        for round_ in range(1000):
            prompt = rng.integers(1, 8, rng.integers(1, 30)).tolist()
            stream = llm.stream(prompt, PARAMS, n=int(rng.choice([1, 1, 2])))
            kept.append((int(rng.integers(6)), stream))
            if round_ % 100 == 0:
                assert llm.generate(PROMPTS[3], PARAMS, priority=1).token_ids == expected
            if len(kept) > 5:
                n_read, stream = kept.pop(int(rng.integers(5)))
                for _ in range(n_read if rng.random() < 0.2 else 0):
                    next(stream, None)
                if rng.random() < 0.5:
                    stream.close()
                del stream  # which abandons it
        del kept
        gc.collect()
        rest(llm)


def test_a_slow_reader_is_waited_for_and_misses_nothing(llm):
    expected = llm.generate([1, 2], LONG).token_ids
    n_before = llm.runner.n_forwards
    stream = llm.stream([1, 2], LONG)
    wait_until(lambda: llm._engine.is_resting)
    assert llm.runner.n_forwards - n_before == llm._engine.limits.n_unread == 64
    assert llm._engine.pool.n_live == 0  # others may have its pages
    other = llm.generate([2, 2], LONG).token_ids
    assert len(other) == 200
    assert tuple(i for event in stream for i in event.token_ids) == expected
    rest(llm)


def test_a_paused_request_can_be_cancelled_dropped_and_reprioritised(llm):
    for end in (lambda s: s.close(), lambda s: s.set_priority(3) or s.close(), lambda s: s.__del__()):
        stream = llm.stream([1, 2], LONG)
        wait_until(lambda: llm._engine.is_resting)
        end(stream)
        rest(llm)


def test_closing_a_stream_wakes_the_thread_that_reads_it(llm):
    llm.runner.let(0)
    stream, told = llm.stream([1, 2], LONG), []
    reading = threading.Thread(target=lambda: told.append(list(stream)), daemon=True)
    reading.start()
    llm.runner.is_held.wait(30)
    wait_until(lambda: stream._reading.locked())
    with pytest.raises(RuntimeError, match="two threads read one stream"):
        next(stream)
    closing = threading.Thread(target=stream.close)
    closing.start()
    wait_until(lambda: llm._worker._thread.commands.qsize() == 1)
    llm.runner.let(None)
    closing.join()
    reading.join(30)
    assert len(told) == 1
    assert len(told[0]) < 200
    assert list(stream) == []
    rest(llm)


def test_threads_that_close_streams_which_others_read_leave_nobody_waiting(llm):
    for round_ in range(60):
        stream = llm.stream([1, 2, round_ % 8], LONG)
        reading = threading.Thread(target=lambda stream=stream: list(stream), daemon=True)
        reading.start()
        closing = [threading.Thread(target=stream.close) for _ in range(2)]
        for thread in closing:
            thread.start()
        for thread in [*closing, reading]:
            thread.join(30)
            assert not thread.is_alive()
    rest(llm)


def test_a_deadline_ends_a_request_whose_reader_does_not_read(llm):
    stream = llm.stream([1, 2], LONG.replace(deadline_s=0.5))
    wait_until(lambda: llm._engine.is_resting and not llm._engine.is_idle)
    wait_until(lambda: llm._engine.is_idle)
    *_, last = stream
    assert last.finish_reason == "deadline"


def test_a_step_that_fails_reaches_every_reader_and_the_engine_goes_on(llm):
    expected = llm.generate([1, 2], PARAMS).token_ids
    llm.runner.let(0)
    stream = llm.stream([1, 2], PARAMS)
    raised = []

    def wait() -> None:
        try:
            llm.generate([2, 2], PARAMS)
        except ZeroDivisionError as error:
            raised.append(error)

    llm.runner.is_held.wait(30)
    thread = threading.Thread(target=wait)
    thread.start()
    wait_until(lambda: llm._worker._thread.commands.qsize() == 1)
    llm.runner.let(2)
    llm.runner.is_held.wait(30)
    llm.runner.fails = ZeroDivisionError("a broken kernel")
    llm.runner.let(None)
    thread.join()
    assert len(raised) == 1
    with pytest.raises(ZeroDivisionError, match="a broken kernel"):
        list(stream)
    assert list(stream) == []
    rest(llm)
    llm.runner.fails = None
    assert llm.generate([1, 2], PARAMS).token_ids == expected


def test_an_engine_whose_pages_do_not_add_up_is_closed_and_says_why(llm, monkeypatch):
    def lost():
        raise AssertionError("a page is lost")

    monkeypatch.setattr(llm._engine, "check", lost)
    llm.runner.fails = ZeroDivisionError("a broken kernel")
    with pytest.raises(ZeroDivisionError):
        llm.generate([1, 2], PARAMS)
    wait_until(lambda: llm._worker._thread.is_closed)
    with pytest.raises(UnspoolError, match=r"engine has failed and is closed: .* page is lost") as caught:
        llm.generate([1, 2], PARAMS)
    assert caught.value.code == "engine_failed"
    assert llm.runner.is_closed


def test_what_can_never_run_is_refused_and_takes_its_companions_with_it(llm):
    with pytest.raises(BadRequest, match=r"600 branches at once, .* and a step has 512"):
        llm.generate([1, 2], PARAMS, n=600)
    with pytest.raises(CapacityError, match="the KV cache holds 1600"):
        llm.generate([1, 2], PARAMS.replace(max_tokens=200), n=100)
    with pytest.raises(BadRequest, match="the prompt has no tokens"):
        llm._worker.open([Request((1,), PARAMS), Request((), PARAMS)], [Mailbox(), Mailbox()])
    rest(llm)


def test_closing_tells_everyone_who_waits(llm):
    llm.runner.let(0)
    told = []
    waiting = [
        threading.Thread(target=lambda: told.append(llm.generate([1], PARAMS).finish_reason)),
        threading.Thread(target=lambda: told.append([e.finish_reason for e in llm.stream([2], PARAMS)][-1])),
    ]
    waiting[0].start()
    llm.runner.is_held.wait(30)
    waiting[1].start()
    wait_until(lambda: llm._worker._thread.commands.qsize() == 1)
    closing = [threading.Thread(target=llm.close) for _ in range(3)]
    for thread in closing:
        thread.start()
    wait_until(lambda: llm._worker._thread.commands.qsize() == 4)
    with pytest.raises(BadRequest, match="the model is closed") as caught:
        llm.generate([1])
    assert caught.value.code == "closed"
    llm.runner.let(None)
    for thread in [*waiting, *closing]:
        thread.join()
    assert told == ["cancelled", "cancelled"]
    assert llm.runner.is_closed


def test_closing_a_model_that_never_ran_closes_the_runner():
    llm = open_llm()
    llm.close()
    llm.close()
    assert llm.runner.is_closed
    with pytest.raises(BadRequest, match="the model is closed"):
        llm.stream([1])


def test_an_interrupt_wakes_who_waits_and_never_meets_a_step(llm):
    expected = llm.generate([1, 2], PARAMS).token_ids
    seen = []
    forward = llm.runner.forward

    def interrupted(plan):
        seen.append(threading.current_thread() is threading.main_thread())
        if len(seen) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return forward(plan)

    llm.runner.forward = interrupted
    for ask in (lambda: llm.generate(PROMPTS, LONG), lambda: list(llm.stream([1, 2], LONG))):
        seen.clear()
        with pytest.raises(KeyboardInterrupt):
            ask()
        rest(llm)
        assert not any(seen)
    llm.runner.forward = forward
    assert llm.generate([1, 2], PARAMS).token_ids == expected


def interrupted_amid_a_step(llm, wait):
    """Ctrl-C comes while something waits for a step that is held: the stream whose step it is."""
    llm.runner.let(0)
    stream = llm.stream([1, 2], PARAMS)
    llm.runner.is_held.wait(30)
    threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        wait()
    return stream


def test_who_closes_again_after_an_interrupt_waits_for_the_thread_all_the_same(llm):
    stream = interrupted_amid_a_step(llm, llm.close)
    closing = threading.Thread(target=llm.close)
    n_before = llm._worker._thread.commands.qsize()
    closing.start()
    wait_until(lambda: llm._worker._thread.commands.qsize() > n_before)
    assert closing.is_alive()
    llm.runner.let(None)
    closing.join()
    assert llm.runner.is_closed
    assert list(stream)[-1].finish_reason == "cancelled"


def test_an_interrupt_while_a_request_is_taken_in_takes_it_out_again(llm):
    stream = interrupted_amid_a_step(llm, lambda: llm.stream([2, 2], PARAMS))  # which it cannot take in yet
    llm.runner.let(None)
    assert len(list(stream)) == 20
    rest(llm)


@pytest.mark.parametrize("priority", ["high", 1.5, True, None, 2**31])
def test_a_priority_is_a_whole_number(llm, priority):
    stream = llm.stream([1, 2], PARAMS)
    with pytest.raises(BadRequest, match="priority must be a whole number"):
        stream.set_priority(priority)
    assert len(list(stream)) == 20


def test_a_command_that_fails_fails_for_its_caller_alone(llm):
    with pytest.raises(ZeroDivisionError):
        llm._worker.call(lambda: 1 / 0)
    assert llm._worker.call(lambda: threading.current_thread().name) == "unspool-worker"


def test_who_asks_on_the_thread_of_the_model_is_refused_and_may_give_up_a_request(llm):
    stream = llm.stream([1, 2], LONG)

    def ask() -> str:
        stream.close()  # as a finalizer may
        with pytest.raises(BadRequest, match="would wait for itself") as caught:
            llm.generate([1], PARAMS)
        with pytest.raises(BadRequest, match="would wait for itself"):
            next(llm.generate_all([[1]], PARAMS))
        return caught.value.code

    assert llm._worker.submit(ask).result(30) == "own_thread"
    rest(llm)


def test_nobody_waits_for_a_model_on_the_thread_of_another(llm):
    """A finalizer may close a stream of the one where the other runs."""
    expected = llm.generate([1, 2], PARAMS).token_ids
    llm.runner.let(2)
    stream = llm.stream([1, 2], LONG)
    llm.runner.is_held.wait(30)
    with open_llm() as other:
        try:
            other._worker.submit(stream.close).result(10)
        finally:
            llm.runner.let(None)
    assert list(stream) == []
    rest(llm)
    assert llm.generate([1, 2], PARAMS).token_ids == expected


def test_a_thread_that_the_system_does_not_give_is_an_error_and_the_next_try_may_have_one(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    with open_llm() as llm:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            for _ in range(2):
                with pytest.raises(CapacityError, match="gives no thread") as caught:
                    llm.generate([1], PARAMS)
                assert caught.value.code == "out_of_threads"
        assert len(llm.generate([1], PARAMS).token_ids) == 20


def test_a_thread_is_started_by_who_keeps_forks_waiting_before_the_gate(monkeypatch):
    held = []

    class Noted:
        def __enter__(self):
            held.append(llm._worker._thread.gate._is_owned())

        def __exit__(self, *_):
            pass

    monkeypatch.setattr("unspool.engine.engine_thread.between_forks", Noted())
    with open_llm() as llm:
        llm.generate([1], PARAMS)
        llm.generate([1], PARAMS)
    assert held == [False]  # the second found a thread


def test_a_finalizer_that_closes_a_stream_while_a_request_is_handed_over_does_not_wait_for_itself(llm):
    stream = llm.stream([1, 2], LONG)
    thread = llm._worker._thread
    commands, told = thread.commands, []

    class Commands:
        """Runs a finalizer where one might be run."""

        def put(self, command):
            thread.commands = commands
            stream.close()
            commands.put(command)

        def __getattr__(self, name):
            return getattr(commands, name)

    thread.commands = Commands()
    asking = threading.Thread(target=lambda: told.append(llm.generate([1], PARAMS)), daemon=True)
    asking.start()
    asking.join(30)
    assert len(told) == 1
    rest(llm)


def test_forgetting_what_was_never_opened_does_nothing(llm):
    llm._worker.forget([Gathered(), Mailbox()])
    rest(llm)
    llm.close()
    llm._worker.forget([Gathered()])
    llm._worker.abandon([Gathered()])


def test_who_comes_first_can_be_changed_while_it_runs():
    llm = open_llm(Limits(n_rows=8, n_tasks=1))
    with llm:
        llm.runner.let(0)
        first = llm.stream([1], PARAMS)
        llm.runner.is_held.wait(30)
        inboxes = [Gathered() for _ in range(3)]
        order = []
        for i, inbox in enumerate(inboxes):
            inbox.whole.add_done_callback(lambda _, i=i: order.append(i))
            llm._worker.submit_open([Request((2, i), PARAMS)], [inbox])
        llm._worker.set_priority(inboxes[2], 5)
        llm.runner.let(None)
        for inbox in inboxes:
            assert inbox.whole.result()[-1].finish_reason == "length"
        assert order == [2, 0, 1]
        assert len(list(first)) == 20


def test_a_process_ends_while_a_model_is_busy():
    program = """
from paced import LETTERS, PacedRunner
from unspool import LLM, DecodingParams
llm = LLM.from_parts(PacedRunner(), LETTERS)
stream = llm.stream([1, 2], DecodingParams(max_tokens=200, ignore_eos=True))
print(next(stream).finish_reason)
"""
    assert in_a_process(program) == "None\n"
