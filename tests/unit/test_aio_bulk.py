"""Many prompts at the asyncio door, and what it has that the blocking door has."""

from __future__ import annotations

import asyncio
import inspect
import itertools
from contextlib import aclosing

import pytest
from paced import LETTERS, PacedRunner

from unspool import LLM, AsyncEventStream, AsyncLLM, DecodingParams, EventStream, Limits
from unspool.errors import BadRequest

GREEDY = DecodingParams(temperature=0, max_tokens=10, ignore_eos=True)


@pytest.fixture
def llm():
    with LLM.from_parts(PacedRunner(), LETTERS, limits=Limits(n_tasks=4)) as llm:
        yield llm
        assert llm._worker.call(lambda: llm._engine.is_idle)


async def several(n: int, each=lambda i: [1 + i % 7, 2]):
    for i in range(n):
        await asyncio.sleep(0)
        yield each(i)


def public(door: type) -> dict[str, list[str]]:
    """The arguments of what a caller may call."""
    found = inspect.getmembers(door, lambda member: callable(member) or isinstance(member, property))
    return {
        name: list(inspect.signature(member).parameters) if callable(member) else []
        for name, member in found
        if not name.startswith("_")
    }


def test_both_doors_have_the_same_methods_with_the_same_arguments():
    for doors in ((LLM, AsyncLLM), (EventStream, AsyncEventStream)):
        blocking, awaited = map(public, doors)
        assert blocking.pop("close") == awaited.pop("aclose")
        assert blocking == awaited


@pytest.mark.parametrize("is_async", [False, True])
def test_answers_are_those_of_the_blocking_door_in_their_order(llm, is_async):
    params = [DecodingParams(seed=seed, max_tokens=1 + seed * 5 % 9) for seed in range(30)]
    prompts = [[1 + i % 7, 2] for i in range(30)]
    expected = [answer.token_ids for answer in llm.generate_all(prompts, params)]
    several_each = [[a.token_ids for a in answers] for answers in llm.generate_all(prompts, GREEDY, n=2)]

    async def main():
        door = AsyncLLM.of(llm)
        given = several(30) if is_async else iter(prompts)
        told = [answer.token_ids async for answer in door.generate_all(given, iter(params))]
        given = several(30) if is_async else prompts
        every = [answers async for answers in door.generate_all(given, GREEDY, n=2)]
        return told, [[a.token_ids for a in answers] for answers in every]

    assert asyncio.run(main()) == (expected, several_each)


@pytest.mark.parametrize("is_async", [False, True])
def test_an_endless_iterable_is_read_as_far_as_it_is_needed(llm, is_async):
    n_taken = 0

    def each(i):
        nonlocal n_taken
        n_taken += 1
        return [1 + i % 7, 2]

    async def main():
        prompts = several(10**9, each) if is_async else map(each, itertools.count())
        answers = AsyncLLM.of(llm).generate_all(prompts, GREEDY)
        await asyncio.sleep(0)
        assert n_taken == 0
        async with aclosing(answers):
            first = [await anext(answers) for _ in range(30)]
        await asyncio.to_thread(llm._worker.call, lambda: None)
        assert llm._engine.is_idle
        return [answer.token_ids for answer in first]

    told = asyncio.run(main())
    assert n_taken <= 30 + 2 * 4
    assert told == [a.token_ids for a in llm.generate([[1 + i % 7, 2] for i in range(30)], GREEDY)]


def test_an_answer_does_not_wait_for_the_next_prompt(llm):
    async def main():
        asked: asyncio.Queue[list[int]] = asyncio.Queue()

        async def prompts():
            while True:
                yield await asked.get()

        async with aclosing(AsyncLLM.of(llm).generate_all(prompts(), GREEDY)) as answers:
            for i in range(5):
                asked.put_nowait([1 + i, 2])
                assert len((await asyncio.wait_for(anext(answers), 30)).token_ids) == 10

    asyncio.run(main())


def test_prompts_are_taken_in_together_and_not_one_a_step(llm):
    async def main():
        prompts = ([1 + i % 7, 2, i % 5] for i in range(40))
        return [answer async for answer in AsyncLLM.of(llm).generate_all(prompts, GREEDY)]

    assert len(asyncio.run(main())) == 40
    assert llm.runner.n_forwards < 40 * 10 / 4 * 2  # four at once


@pytest.mark.parametrize("way", ["break", "cancel"])
def test_who_leaves_early_cancels_what_is_in_flight(llm, way):
    async def read(answers):
        async for _ in answers:
            if way == "break":
                return
            llm.runner.let(0)

    async def main():
        params = GREEDY.replace(max_tokens=200)
        answers = AsyncLLM.of(llm).generate_all(([1, 2] for _ in itertools.count()), params)
        reading = asyncio.create_task(read(answers))
        if way == "cancel":
            await asyncio.to_thread(llm.runner.is_held.wait, 30)
            reading.cancel()
            llm.runner.let(None)
            with pytest.raises(asyncio.CancelledError):
                await reading
        else:
            await reading

    asyncio.run(main())
    llm._worker.call(lambda: None)
    assert llm._engine.is_idle
    assert llm.runner.n_forwards < 900


def broken():
    yield [1]
    yield [2]
    raise ZeroDivisionError("no more")


async def broken_elsewhere():
    for prompt in broken():
        yield prompt


@pytest.mark.parametrize(
    ("prompts", "params", "error", "says"),
    [
        (lambda: [[1], [2], [99], [98], [3]], GREEDY, BadRequest, "token id 99"),
        (broken, GREEDY, ZeroDivisionError, "no more"),
        (broken_elsewhere, GREEDY, ZeroDivisionError, "no more"),
        (lambda: [[1]] * 3, [GREEDY] * 2, BadRequest, "^params ended after 2 prompts; give one for each$"),
        (lambda: several(3), [GREEDY] * 2, BadRequest, "^params ended after 2 prompts; give one for each$"),
        (lambda: [[1]] * 2, [GREEDY] * 3, BadRequest, "^prompts ended after 2 params; give one for each$"),
        (lambda: several(2), [GREEDY] * 3, BadRequest, "^prompts ended after 2 params; give one for each$"),
        (lambda: [[1]] * 3, [GREEDY, GREEDY, 0.5], BadRequest, "params must be DecodingParams"),
    ],
)
def test_what_is_wrong_is_raised_in_its_turn(llm, prompts, params, error, says):
    async def main():
        answers = AsyncLLM.of(llm).generate_all(prompts(), params)
        told = [len((await anext(answers)).token_ids) for _ in range(2)]
        with pytest.raises(error, match=says):
            await anext(answers)
        assert [answer async for answer in answers] == []
        return told

    assert asyncio.run(main()) == [10, 10]


@pytest.mark.parametrize("is_async", [False, True])
def test_none_among_the_params_is_the_defaults(llm, is_async):
    async def main():
        prompts = several(2) if is_async else [[1], [2]]
        return [a.params async for a in AsyncLLM.of(llm).generate_all(prompts, [None, GREEDY])]

    assert asyncio.run(main()) == [DecodingParams(), GREEDY]
    assert [a.params for a in llm.generate_all([[1], [2]], [None, GREEDY])] == [DecodingParams(), GREEDY]


def test_what_is_no_list_of_prompts_is_refused_at_once(llm):
    with pytest.raises(BadRequest, match="generate_all takes several prompts"):
        AsyncLLM.of(llm).generate_all("one", GREEDY)
    with pytest.raises(BadRequest, match="params must be DecodingParams"):
        AsyncLLM.of(llm).generate_all([[1]], 0.5)


def test_progress_is_drawn_on_a_terminal_alone(llm, capfd, monkeypatch):
    async def main(prompts):
        answers = AsyncLLM.of(llm).generate_all(prompts, GREEDY, progress=True)
        return [len(answer.token_ids) async for answer in answers]

    assert asyncio.run(main([[1], [2]])) == [10, 10]
    assert capfd.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for prompts, total in (([[1], [2], [3]], "3"), (several(3), "?")):
        assert len(asyncio.run(main(prompts))) == 3
        assert f"3/{total}" in capfd.readouterr().err
