"""Ctrl-C while an answer is written: it ends between two tokens, with the figures that it has by then."""

from __future__ import annotations

import signal
import sys
from collections.abc import Generator, Iterable
from contextlib import closing
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unspool.cli.decoding import Decoding
    from unspool.engine.stream import EventStream
    from unspool.types import Event


class Interrupts:
    """Ctrl-C while an answer is written.

    Before its first token the whole prompt may have to be read, so KeyboardInterrupt is raised at once
    (and the request ends with the step that runs). After it, the answer ends between two tokens, so that
    what is kept is what was shown; a second Ctrl-C is raised at once.
    """

    def __init__(self) -> None:
        self._has_begun = False
        self._is_stopping = False

    def is_stopping(self) -> bool:
        """Asked after every token: was Ctrl-C pressed?"""
        self._has_begun = True
        return self._is_stopping

    def __enter__(self) -> Interrupts:
        self._before = signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._is_stopping or not self._has_begun:
            signal.default_int_handler(number, frame)
        self._is_stopping = True


def until_interrupted(stream: EventStream) -> Generator[Event, None, None]:
    """The events of an answer, and after Ctrl-C those that there are: the last has the finish reason
    "cancelled", figures and the seed. KeyboardInterrupt is raised behind it."""
    with closing(stream), Interrupts() as interrupts:
        for event in stream:
            yield event
            if interrupts.is_stopping():
                stream.cancel()
                yield from stream
                raise KeyboardInterrupt


def all_of(events: Iterable[Event], decoding: Decoding, *, quiet: bool) -> list[Event]:
    """Events that are shown when all have come. Ctrl-C leaves nothing to show but the line of figures, whose
    seed says how to have the same again."""
    heard: list[Event] = []
    try:
        for event in events:
            heard.append(event)
    except KeyboardInterrupt:
        last = next((event for event in heard if event.usage is not None), None)
        if last is not None and not quiet:
            from unspool.cli.figures import figures_line

            print(figures_line(last, decoding.shown_profile), file=sys.stderr, flush=True)
        raise
    return heard
