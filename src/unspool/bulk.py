"""Many prompts, some in flight, answers in order."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from itertools import repeat

from unspool.asking import completions_of
from unspool.engine.inbox import Gathered
from unspool.engine.prompt import Prompt, each_of
from unspool.engine.worker import Worker
from unspool.errors import BadRequest
from unspool.params import DecodingParams
from unspool.types import Completion, Request


def answers_in_order(
    worker: Worker,
    prompts: Iterable[Prompt],
    params: DecodingParams | Iterable[DecodingParams],
    request_of: Callable[[Prompt, DecodingParams], Request],
    *,
    progress: bool,
) -> Iterator[list[Completion]]:
    """The answers to each prompt; `prompts` is read as places become free.

    The places are twice what runs at once: while the oldest request still runs, those behind it may end,
    and others take their turn.
    """
    return _run(worker, pairs_of(prompts, params), request_of, shown(prompts, progress=progress))


def pairs_of(
    prompts: Iterable[Prompt], params: DecodingParams | Iterable[DecodingParams]
) -> Iterator[tuple[Prompt, DecodingParams]]:
    """Each prompt with its parameters."""
    each = each_of(prompts)
    if isinstance(params, DecodingParams):
        return zip(each, repeat(params), strict=False)
    return _pairs(each, params)


def _pairs(
    prompts: Iterable[Prompt], params: Iterable[DecodingParams]
) -> Iterator[tuple[Prompt, DecodingParams]]:
    each = OneForEach(params)
    for prompt in prompts:
        yield prompt, each.take()
    each.end()


class OneForEach:
    """Parameters that come one by one, beside prompts that do; refused where one of them ends first."""

    def __init__(self, params: Iterable[DecodingParams]) -> None:
        self._params: Iterator[DecodingParams] = iter(params)
        self._n_taken = 0

    def take(self) -> DecodingParams:
        """Of the next prompt, as they were given: None, too."""
        for its_params in self._params:
            self._n_taken += 1
            return its_params
        raise self._refusal("params", "prompts")

    def end(self) -> None:
        """There is no other prompt."""
        for _ in self._params:
            raise self._refusal("prompts", "params")

    def _refusal(self, ended: str, going_on: str) -> BadRequest:
        return BadRequest(
            f"{ended} ended after {self._n_taken} {going_on}; give one for each", code="bad_params"
        )


def shown(prompts: object, *, progress: bool) -> AbstractContextManager[Callable[[], object]]:
    """What is to be called for every answer, so that whoever wants to see it sees how many there are."""
    if not progress or not sys.stderr.isatty():
        return nullcontext(_nothing)
    return _Bar(len(prompts) if isinstance(prompts, Sized) else None)


def _run(
    worker: Worker,
    pairs: Iterator[tuple[Prompt, DecodingParams]],
    request_of: Callable[[Prompt, DecodingParams], Request],
    bar: AbstractContextManager[Callable[[], object]],
) -> Iterator[list[Completion]]:
    n_places = 2 * worker.engine.limits.n_tasks
    in_flight: deque[tuple[Future[None], Gathered, DecodingParams]] = deque()
    refusal: Exception | None = None
    with bar as advance:
        try:
            while True:
                while refusal is None and len(in_flight) < n_places:
                    try:
                        request = request_of(*next(pairs))
                    except StopIteration:
                        break
                    except Exception as error:  # raised after the answers that come before it
                        refusal = error
                    else:
                        inbox = Gathered()  # nobody waits for the worker: it takes in all that have come
                        opened = worker.submit_open([request], [inbox])
                        in_flight.append((opened, inbox, request.params))
                if not in_flight:
                    break
                opened, inbox, its_params = in_flight[0]
                opened.result()
                answers = completions_of(inbox.whole.result(), its_params)
                in_flight.popleft()
                advance()
                yield answers
        finally:
            if in_flight:
                worker.abandon([inbox for _, inbox, _ in in_flight])
    if refusal is not None:
        raise refusal


def _nothing() -> None:
    """Nobody watches."""


class _Bar:
    """Answers so far, drawn by rich."""

    def __init__(self, n_total: int | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("answers"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task = self._progress.add_task("answers", total=n_total)

    def __enter__(self) -> Callable[[], object]:
        self._progress.start()
        return lambda: self._progress.advance(self._task)

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
