"""A stream of events that no engine made."""

from __future__ import annotations

from collections.abc import Generator

from unspool.types import Event


class FakeStream:
    """Events that somebody makes, with what a stream has beside them."""

    def __init__(self, events: Generator[Event, None, None], last: Event | None = None) -> None:
        """`last` comes behind those that were cancelled."""
        self._events, self._last, self._is_cancelled = events, last, False

    def __iter__(self) -> FakeStream:
        return self

    def __next__(self) -> Event:
        if not self._is_cancelled:
            return next(self._events)
        last, self._last = self._last, None
        if last is None:
            raise StopIteration
        return last

    def cancel(self) -> None:
        self._is_cancelled = True

    def close(self) -> None:
        self._events.close()
