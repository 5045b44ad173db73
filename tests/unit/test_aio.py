"""The asyncio front door, on a toy model that can be held: no plug-in, only asyncio.run."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading

import numpy as np
import pytest
from paced import LETTERS, PacedRunner, wait_until
from tiny_llm import write_tiny_llm

from unspool import LLM, AsyncLLM, DecodingParams, Limits
from unspool.errors import BadRequest, ContextOverflow, TemplateError

PARAMS = DecodingParams(temperature=0, max_tokens=20, ignore_eos=True)
LONG = PARAMS.replace(max_tokens=200)
PROMPTS = [[1, 2, 3], [1, 2, 4], [2, 1], [3, 3, 3, 3, 3]]


@pytest.fixture
def llm():
    """A blocking door to the same model, to compare with and to look behind."""
    with LLM.from_parts(PacedRunner(), LETTERS, limits=Limits(n_unread=16)) as llm:
        yield llm
        llm.runner.let(None)
        look(llm)


def look(llm: LLM) -> None:
    def check() -> None:
        llm._engine.check()
        assert llm._engine.is_idle
        assert llm._engine.pool.n_live == 0

    llm._worker.call(check)


def making_held(stream) -> tuple[threading.Event, threading.Event]:
    """Set when the request of a stream is being made, and to be set for it to be made."""
    is_making, may_make = threading.Event(), threading.Event()
    make = stream._make_request

    def slowly():
        is_making.set()
        may_make.wait(30)
        return make()

    stream._make_request = slowly
    return is_making, may_make


async def ids_of(stream) -> tuple[int, ...]:
    return tuple([i async for event in stream for i in event.token_ids])


def test_answers_are_those_of_the_blocking_door(llm):
    expected = llm.generate(PROMPTS, PARAMS)

    async def main():
        door = AsyncLLM.of(llm)
        one = await door.generate(PROMPTS[0], PARAMS)
        many = await door.generate(PROMPTS, PARAMS)
        streamed = await asyncio.gather(*(ids_of(door.stream(prompt, PARAMS)) for prompt in PROMPTS))
        assert await door.generate([], PARAMS) == []
        return one, many, streamed

    one, many, streamed = asyncio.run(main())
    assert one.token_ids == expected[0].token_ids
    assert [each.token_ids for each in many] == [each.token_ids for each in expected]
    assert streamed == [each.token_ids for each in expected]


def test_several_answers_come_as_lists_and_as_branches(llm):
    params = DecodingParams(seed=3, max_tokens=9, ignore_eos=True)
    expected = llm.generate([1, 2], params, n=3)

    async def main():
        door = AsyncLLM.of(llm)
        (nested,) = await door.generate([[1, 2]], params, n=3)
        told: dict[int, tuple[int, ...]] = {}
        async for event in door.stream([1, 2], params, n=3):
            told[event.branch] = told.get(event.branch, ()) + event.token_ids
        return await door.generate([1, 2], params, n=3), nested, told

    answers, nested, told = asyncio.run(main())
    assert [a.token_ids for a in answers] == [a.token_ids for a in nested] == [a.token_ids for a in expected]
    assert told == {i: a.token_ids for i, a in enumerate(expected)}


def test_a_door_of_its_own_loads_and_closes(tmp_path):
    path = write_tiny_llm(tmp_path / "tiny.gguf")

    async def main():
        async with AsyncLLM(path, threads=1, context_length=64) as llm:
            done = await llm.generate("hello", PARAMS)
            talk = [{"role": "user", "content": "hi"}]
            chatted = await llm.chat(talk, PARAMS)
            streamed = await ids_of(llm.stream_chat(talk, PARAMS))
            (first, _) = await llm.chat(talk, PARAMS, n=2)
            assert chatted.token_ids == streamed == first.token_ids
            assert llm.stats().tokens_decoded > 0
            with pytest.raises(ContextOverflow):
                await llm.generate("x" * 64)
            measured = await llm.score("hello, world")
            assert await llm.perplexity("hello, world") == measured.perplexity
        await llm.aclose()
        with pytest.raises(BadRequest, match="closed"):
            await llm.generate("hello")
        return done, measured

    done, measured = asyncio.run(main())
    with LLM(path, threads=1, context_length=64) as llm:
        assert llm.generate("hello", PARAMS).token_ids == done.token_ids
        assert llm.score("hello, world") == measured


def test_a_priority_holds_from_before_the_first_step():
    llm = LLM.from_parts(PacedRunner(), LETTERS, limits=Limits(n_tasks=1))
    order = []

    async def read(i: int, stream) -> None:
        await ids_of(stream)
        order.append(i)

    async def main():
        door = AsyncLLM.of(llm)
        llm.runner.let(0)
        first = asyncio.create_task(ids_of(door.stream([1], PARAMS)))
        await asyncio.to_thread(llm.runner.is_held.wait, 30)
        streams = [door.stream([2, i], PARAMS) for i in range(3)]
        streams[2].set_priority(5)
        with pytest.raises(BadRequest, match="priority must be a whole number"):
            streams[1].set_priority("high")
        readers = [asyncio.create_task(read(i, stream)) for i, stream in enumerate(streams)]
        while llm._worker._thread.commands.qsize() < 3:
            await asyncio.sleep(0.001)
        llm.runner.let(50)  # the first, and one other
        while not order:
            await asyncio.sleep(0.001)
        llm.runner.let(None)
        await asyncio.gather(first, *readers)

    with llm:
        asyncio.run(main())
    assert order[0] == 2


def test_what_is_wrong_is_raised_where_it_is_awaited(llm):
    async def main():
        door = AsyncLLM.of(llm)
        stream = door.stream([99], PARAMS)
        with pytest.raises(BadRequest, match="token id 99"):
            await anext(stream)
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        with pytest.raises(TemplateError):
            await door.chat([{"role": "user", "content": "hi"}])
        with pytest.raises(BadRequest, match="n must be"):
            door.stream([1], n=0)

    asyncio.run(main())


def test_a_stream_that_is_never_read_never_begins(llm):
    async def main():
        n_before = llm.runner.n_forwards
        stream = AsyncLLM.of(llm).stream([1, 2], PARAMS)
        stream.set_priority(3)
        await stream.aclose()
        assert await ids_of(stream) == ()
        del stream
        AsyncLLM.of(llm).stream([1, 2], PARAMS)
        assert llm.runner.n_forwards == n_before

    asyncio.run(main())


@pytest.mark.parametrize("way", ["cancel", "aclose", "with", "drop", "timeout"])
def test_who_stops_reading_cancels_the_request(llm, way):
    async def read(stream):
        async for _ in stream:
            llm.runner.let(0)  # the next step is not done before the test says so

    async def main():
        stream = AsyncLLM.of(llm).stream([1, 2], LONG)
        if way in ("cancel", "timeout"):
            reading = asyncio.create_task(read(stream))
            await asyncio.to_thread(llm.runner.is_held.wait, 30)
            await asyncio.sleep(0)
            if way == "cancel":
                reading.cancel()
            with contextlib.suppress(asyncio.CancelledError, asyncio.TimeoutError):
                await (reading if way == "cancel" else asyncio.wait_for(reading, 0.02))
            llm.runner.let(None)
        elif way == "with":
            async with stream:
                await anext(stream)
        else:
            await anext(stream)
            if way == "aclose":
                await stream.aclose()
        if way != "drop":
            assert await ids_of(stream) == ()
        del stream
        gc.collect()

    asyncio.run(main())
    look(llm)
    assert llm.runner.n_forwards < 150


@pytest.mark.parametrize("when", ["before", "read", "waiting", "over"])
def test_a_stream_that_is_cancelled_leaves_its_last_events_if_it_has_begun(llm, when):
    async def main():
        stream = AsyncLLM.of(llm).stream([1, 2], LONG)
        heard = []
        if when != "before":
            llm.runner.let(3)
            heard.append(await anext(stream))
            await asyncio.to_thread(llm.runner.is_held.wait, 30)
        if when == "waiting":
            for _ in range(2):
                heard.append(await anext(stream))
            waiting = asyncio.create_task(anext(stream))
            await asyncio.sleep(0)
        if when == "over":
            llm.runner.let(None)
            heard += [event async for event in stream]
        cancelling = asyncio.create_task(stream.cancel())
        if when in ("read", "waiting"):
            await asyncio.to_thread(wait_until, lambda: llm._worker._thread.commands.qsize() == 1)
        llm.runner.let(None)
        await cancelling
        await stream.cancel()
        if when == "waiting":
            heard.append(await waiting)
        return heard + [event async for event in stream]

    ends = [event.finish_reason for event in asyncio.run(main())][-1:]
    assert ends == {"before": [], "over": ["length"]}.get(when, ["cancelled"])
    look(llm)


def test_a_stream_whose_model_is_closed_is_cancelled_already():
    async def main():
        async with AsyncLLM.of(LLM.from_parts(PacedRunner(), LETTERS, limits=Limits(n_unread=4))) as door:
            stream = door.stream([1, 2], LONG)
            await anext(stream)
        await stream.cancel()
        return [event.finish_reason async for event in stream][-1]

    assert asyncio.run(main()) == "cancelled"


def test_a_request_that_is_cancelled_while_it_is_being_made_never_begins(llm):
    async def main():
        stream = AsyncLLM.of(llm).stream([1, 2], LONG)
        is_making, may_go = making_held(stream)
        reading = asyncio.create_task(ids_of(stream))
        await asyncio.to_thread(is_making.wait, 30)
        await stream.cancel()
        may_go.set()
        assert await reading == ()

    n_before = llm.runner.n_forwards
    asyncio.run(main())
    assert llm.runner.n_forwards == n_before
    look(llm)


def test_a_task_that_waits_for_a_whole_answer_can_be_cancelled(llm):
    async def main():
        waiting = asyncio.create_task(AsyncLLM.of(llm).generate([PROMPTS[0], PROMPTS[1]], LONG))
        llm.runner.let(2)
        await asyncio.to_thread(llm.runner.is_held.wait, 30)
        waiting.cancel()
        llm.runner.let(None)
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(main())
    look(llm)
    assert llm.runner.n_forwards < 150


def test_tasks_cancelled_at_random_moments_a_thousand_times_leave_no_page():
    """Few pages and few places: requests wait, are preempted and paused when they are cancelled."""
    limits = Limits(n_rows=16, n_tasks=4, n_unread=2)
    llm = LLM.from_parts(PacedRunner(n_pages=40), LETTERS, limits=limits)
    rng = np.random.default_rng(5)

    async def one(door: AsyncLLM, prompt: list[int], whole: bool) -> None:
        if whole:
            await door.generate(prompt, PARAMS)
        else:
            async for _ in door.stream(prompt, PARAMS, n=2):
                await asyncio.sleep(0)

    async def main() -> None:
        door = AsyncLLM.of(llm)
        tasks = set()
        for _ in range(1000):
            prompt = rng.integers(1, 8, rng.integers(1, 20)).tolist()
            tasks.add(asyncio.create_task(one(door, prompt, bool(rng.integers(2)))))
            await asyncio.sleep(0 if rng.random() < 0.7 else 0.001)
            while len(tasks) > 12:
                task = tasks.pop()
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        for task in tasks:
            await task

    with llm:
        expected = llm.generate(PROMPTS[0], PARAMS).token_ids
        asyncio.run(main())
        look(llm)
        assert llm.generate(PROMPTS[0], PARAMS).token_ids == expected


def test_a_slow_reader_is_waited_for_and_the_others_are_not(llm):
    expected = llm.generate([1, 2], LONG).token_ids

    async def main():
        door = AsyncLLM.of(llm)
        slow = door.stream([1, 2], LONG)
        told = (await anext(slow)).token_ids
        while llm.stats().n_paused == 0:
            await asyncio.sleep(0.001)
        n_read = llm.runner.n_forwards
        assert (await door.generate([2, 2], LONG)).usage.completion_tokens == 200
        assert llm.runner.n_forwards == n_read + 200
        return told + await ids_of(slow)

    assert asyncio.run(main()) == expected


def test_readers_in_many_loops_and_threads_each_get_their_own(llm):
    expected = [llm.generate(prompt, PARAMS).token_ids for prompt in PROMPTS]
    door, told = AsyncLLM.of(llm), {}

    async def main(k: int) -> None:
        for _ in range(5):
            got = await asyncio.gather(*(ids_of(door.stream(p, PARAMS)) for p in PROMPTS))
            told[k] = told.get(k, True) and got == expected

    threads = [threading.Thread(target=lambda k=k: asyncio.run(main(k))) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == dict.fromkeys(range(4), True)


def test_a_loop_that_is_closed_with_a_stream_open_hurts_nobody(llm):
    kept = []

    async def main():
        llm.runner.let(4)  # fewer than what nobody reads before a request waits
        kept.append(AsyncLLM.of(llm).stream([1, 2], LONG))
        await anext(kept[0])
        await asyncio.to_thread(llm.runner.is_held.wait, 30)

    asyncio.run(main())
    llm.runner.let(None)
    wait_until(lambda: llm._engine.is_idle)
    assert len(llm.generate([2, 2], PARAMS).token_ids) == 20


def test_a_request_that_rests_for_a_loop_that_is_closed_is_cancelled_before_anything_else_is_done(llm):
    kept = []

    async def main():
        kept.append(AsyncLLM.of(llm).stream([1, 2], LONG))
        await anext(kept[0])
        await asyncio.to_thread(wait_until, lambda: llm._engine.is_resting)

    asyncio.run(main())
    assert not llm._engine.is_idle  # nothing has happened that would wake the worker
    look(llm)
    assert llm._engine.stats().finished["cancelled"] == 1

    with pytest.raises(RuntimeError, match="began in another loop"):
        asyncio.run(ids_of(kept[0]))
    assert asyncio.run(ids_of(kept[0])) == ()


def test_a_step_that_fails_reaches_the_others_when_a_loop_has_closed(llm):
    kept, told = [], []

    async def main():
        llm.runner.let(0)
        kept.append(AsyncLLM.of(llm).stream([1, 2], LONG))
        reading = asyncio.create_task(anext(kept[0]))
        await asyncio.to_thread(llm.runner.is_held.wait, 30)
        kept[0]._abandon = lambda: None  # its task is cancelled, and the worker does not hear of it
        reading.cancel()

    def ask() -> None:
        try:
            llm.generate([2, 2], PARAMS)
        except ZeroDivisionError as error:
            told.append(error)

    asyncio.run(main())
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    wait_until(lambda: llm._worker._thread.commands.qsize() == 1)
    llm.runner.fails = ZeroDivisionError("a broken kernel")
    llm.runner.let(None)
    asking.join(30)
    assert len(told) == 1
    llm.runner.fails = None
    assert len(llm.generate([2, 2], PARAMS).token_ids) == 20


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_stream_can_be_closed_from_another_loop_while_a_task_waits_for_it(llm, is_closed):
    stream, loop = AsyncLLM.of(llm).stream([1, 2], LONG), asyncio.new_event_loop()
    llm.runner.let(0)
    reading = loop.create_task(ids_of(stream))
    loop.run_until_complete(asyncio.to_thread(llm.runner.is_held.wait, 30))
    llm.runner.let(None)
    if is_closed:
        reading._log_destroy_pending = False  # it is meant to be left
        loop.close()
    asyncio.run(stream.aclose())
    look(llm)
    if not is_closed:
        told = loop.run_until_complete(reading)  # what was there before it was closed
        loop.close()
        assert len(told) < 200


@pytest.mark.parametrize("is_heard", [False, True])
def test_a_stream_that_is_closed_while_its_request_is_being_made_ends(llm, is_heard):
    async def main():
        stream = AsyncLLM.of(llm).stream([1, 2], LONG)
        is_making, may_make = making_held(stream)
        reading = asyncio.create_task(ids_of(stream))
        await asyncio.to_thread(is_making.wait, 30)
        if is_heard:
            may_make.set()
            await asyncio.sleep(0)
        await stream.aclose()
        may_make.set()
        return await reading

    assert len(asyncio.run(main())) < 200
    look(llm)


def test_one_stream_is_for_one_task(llm):
    async def main():
        stream = AsyncLLM.of(llm).stream([1, 2], LONG)
        llm.runner.let(0)
        first = asyncio.create_task(anext(stream))
        await asyncio.to_thread(llm.runner.is_held.wait, 30)
        with pytest.raises(RuntimeError, match="two tasks read one stream"):
            await anext(stream)
        llm.runner.let(None)
        assert (await first).token_ids
        await stream.aclose()

    asyncio.run(main())


def test_a_step_that_fails_is_raised_to_every_task(llm):
    llm.runner.fails = ZeroDivisionError("a broken kernel")

    async def main():
        door = AsyncLLM.of(llm)
        jobs = (door.generate([1], PARAMS), ids_of(door.stream([2], PARAMS)), anext(door.stream([3], PARAMS)))
        return await asyncio.gather(*jobs, return_exceptions=True)

    assert [type(each) for each in asyncio.run(main())] == [ZeroDivisionError] * 3
    llm.runner.fails = None


def test_an_error_inside_a_request_is_handed_out_and_raised(llm, monkeypatch):
    forward = llm.runner.forward
    monkeypatch.setattr(llm.runner, "forward", lambda plan: forward(plan) * np.float32(np.nan))

    async def main():
        stream = AsyncLLM.of(llm).stream([1, 2], PARAMS)
        event = await anext(stream)
        assert event.error.code == "no_candidate"
        with pytest.raises(type(event.error)):
            await anext(stream)
        return await ids_of(stream)

    assert asyncio.run(main()) == ()


def test_closing_while_tasks_wait_gives_them_their_last_event():
    llm = LLM.from_parts(PacedRunner(), LETTERS)

    async def main():
        door = AsyncLLM.of(llm)
        llm.runner.let(2)
        whole = asyncio.create_task(door.generate([1], LONG))
        stream = door.stream([2], LONG)
        first = asyncio.create_task(anext(stream))
        await asyncio.to_thread(llm.runner.is_held.wait, 30)
        closing = asyncio.create_task(door.aclose())
        await asyncio.sleep(0.01)
        llm.runner.let(None)
        await closing
        events = [await first] + [event async for event in stream]
        return (await whole).finish_reason, events[-1].finish_reason

    assert asyncio.run(main()) == ("cancelled", "cancelled")
