"""Ctrl-C while an answer is written: it ends between two tokens, with the figures that it has by then."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unspool.cli.decoding import Decoding
    from unspool.engine.stream import EventStream
    from unspool.params import DecodingParams
    from unspool.search.base import Search
    from unspool.types import Event


class Interrupts:
    """Ctrl-C while an answer is written.

    While `is_waiting`, KeyboardInterrupt is raised at once (and the request ends with the step that runs):
    before the first event the whole prompt may have to be read, and a search may tell nothing until it has
    ended. Otherwise the answer ends between two tokens, so that what is kept is what was shown; a second
    Ctrl-C is raised at once.
    """

    def __init__(self) -> None:
        self.is_waiting = True  # for an event that may be long in coming
        self.is_stopping = False  # whether Ctrl-C was pressed since

    def __enter__(self) -> Interrupts:
        self._before = signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.is_stopping or self.is_waiting:
            signal.default_int_handler(number, frame)
        self.is_stopping = True


def seeded(params: DecodingParams, search: Search | None) -> DecodingParams:
    """With a seed where something is drawn and nobody gave one: who breaks off can have the same again."""
    if params.seed is not None or params.is_greedy or (search is not None and not search.draws):
        return params
    from unspool.rng import fresh_seed

    return params.replace(seed=fresh_seed())


def until_interrupted(
    stream: EventStream, *, is_search: bool = False, seed: int | None = None
) -> Generator[Event, None, None]:
    """The events of an answer, and after Ctrl-C those that there are: the last has the finish reason
    "cancelled", figures and the seed. KeyboardInterrupt is raised behind it.

    Before the first event nothing is told. A search, which may work for minutes between two, is told to be
    cancelled by an event without figures, with the seed that it was given.
    """
    interrupts = Interrupts()
    try:
        with closing(stream), interrupts:
            for event in stream:
                interrupts.is_waiting = False
                yield event
                interrupts.is_waiting = is_search
                if interrupts.is_stopping:
                    interrupts.is_waiting = False
                    stream.cancel()
                    yield from stream
                    raise KeyboardInterrupt
    except KeyboardInterrupt:
        if is_search and interrupts.is_waiting:
            from unspool.types import Event

            yield Event(0, "", (), finish_reason="cancelled", seed=seed)
        raise


def all_of(
    events: Iterable[Event],
    decoding: Decoding,
    *,
    quiet: bool,
    broken_off: Callable[[list[Event]], None] = lambda _: None,
) -> list[Event]:
    """Events that are shown when all have come. Ctrl-C leaves `broken_off` those that had come, and the line
    of figures, whose seed says how to have the same again."""
    heard: list[Event] = []
    try:
        for event in events:
            heard.append(event)
    except KeyboardInterrupt:
        broken_off(heard)
        last = next((event for event in heard if event.finish_reason == "cancelled"), None)
        if last is not None and not quiet:
            from unspool.cli.figures import figures_line

            print(figures_line(last, decoding.shown_profile), file=sys.stderr, flush=True)
        raise
    return heard
