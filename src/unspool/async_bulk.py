"""Many prompts, some in flight, answers in order, for coroutines: what `bulk` does for threads."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Coroutine, Iterable, Iterator
from typing import Any, TypeVar

from unspool.bulk import OneForEach, pairs_of, shown
from unspool.engine.prompt import Prompt
from unspool.params import DecodingParams

_T = TypeVar("_T")
_Pair = tuple[Prompt, DecodingParams]


def awaited_in_order(
    prompts: Iterable[Prompt] | AsyncIterable[Prompt],
    params: DecodingParams | Iterable[DecodingParams],
    answer: Callable[[Prompt, DecodingParams], Coroutine[Any, Any, _T]],
    n_places: int,
    *,
    progress: bool,
) -> AsyncGenerator[_T, None]:
    """What `answer` makes of each prompt; `prompts` is read, in the loop, as places become free. It is no
    matter how long the next one takes to come: the answers to those before it are handed out meanwhile."""
    pairs = _paired(prompts, params) if isinstance(prompts, AsyncIterable) else pairs_of(prompts, params)
    return _run(pairs, answer, n_places, prompts, progress)


async def _paired(
    prompts: AsyncIterable[Prompt], params: DecodingParams | Iterable[DecodingParams]
) -> AsyncGenerator[_Pair, None]:
    """What `pairs_of` does."""
    if isinstance(params, DecodingParams):
        async for prompt in prompts:
            yield prompt, params
        return
    each = OneForEach(params)
    async for prompt in prompts:
        yield prompt, each.take()
    each.end()


async def _run(
    pairs: Iterator[_Pair] | AsyncGenerator[_Pair, None],
    answer: Callable[[Prompt, DecodingParams], Coroutine[Any, Any, _T]],
    n_places: int,
    prompts: object,
    progress: bool,
) -> AsyncGenerator[_T, None]:
    places = asyncio.Semaphore(n_places)
    in_flight: deque[asyncio.Task[_T]] = deque()
    has_more = asyncio.Queue[bool]()  # one for each task that was added, and at last that there is none

    async def take() -> None:
        try:
            while True:
                await places.acquire()
                pair = next(pairs, None) if isinstance(pairs, Iterator) else await anext(pairs, None)
                if pair is None:
                    return
                in_flight.append(asyncio.create_task(answer(*pair)))
                has_more.put_nowait(True)
        finally:
            has_more.put_nowait(False)  # also when the prompts raised something

    taking = asyncio.create_task(take())
    try:
        with shown(prompts, progress=progress) as advance:
            while await has_more.get():
                answers = await in_flight[0]
                in_flight.popleft()
                places.release()
                advance()
                yield answers
            await taking  # which raises what the prompts did, after the answers that come before it
    finally:
        for task in (taking, *in_flight):
            task.cancel()
        await asyncio.gather(taking, *in_flight, return_exceptions=True)
        if not isinstance(pairs, Iterator):
            await pairs.aclose()
