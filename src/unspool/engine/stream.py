"""The events of each request, apart: many readers of one engine."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from unspool.engine.engine import Engine
from unspool.engine.interrupt import interrupts_deferred
from unspool.types import Event, Request


class Streams:
    """Shares one engine between readers: whoever waits for news runs the next step for all.

    A lock lets threads take turns, and Ctrl-C waits for the end of a step, so whatever is raised the
    engine is whole. A stream that is closed, or left behind, cancels its request.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._lock = threading.Lock()
        self._inboxes: dict[int, deque[Event]] = {}
        self._abandoned: deque[int] = deque()  # request ids, from finalizers, which must not take the lock

    def open(self, requests: Sequence[Request]) -> list[EventStream]:
        """Add requests, all or none; raises what Engine.add raises."""
        added: list[int] = []
        with self._turn():
            try:
                for request in requests:
                    added.append(self.engine.add(request))
            except BaseException:
                for request_id in added:
                    self.engine.cancel(request_id)
                raise
            self._inboxes.update((request_id, deque()) for request_id in added)
        return [EventStream(self, request_id) for request_id in added]

    def wait(self, request_id: int) -> Event:
        """The next event of a request, running steps until there is one."""
        inbox = self._inboxes[request_id]
        while not inbox:
            with self._turn():
                if not inbox:  # another thread may have run the step meanwhile
                    for event in self.engine.step():
                        self._inboxes[event.request_id].append(event)
        return inbox.popleft()

    def forget(self, request_id: int) -> None:
        """Cancel a request if it is in flight, and drop what was not read of it; idempotent."""
        with self._turn():
            self._forget(request_id)

    def abandon(self, request_id: int) -> None:
        """`forget`, when the next turn comes."""
        self._abandoned.append(request_id)

    def close(self) -> None:
        """Cancel everything and close the engine; idempotent. Readers still get their last event."""
        with self._turn():
            for request_id, inbox in self._inboxes.items():
                inbox.extend(self.engine.cancel(request_id))
            self.engine.close()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        with interrupts_deferred(), self._lock:
            while self._abandoned:
                self._forget(self._abandoned.popleft())
            yield

    def _forget(self, request_id: int) -> None:
        self.engine.cancel(request_id)
        self._inboxes.pop(request_id, None)


class EventStream:
    """An iterator over the events of one request, the last of which has a finish_reason.

    `close` cancels the request, and so do leaving a `with` block early, an exception (Ctrl-C is one) and
    dropping the stream. An event whose `error` is set is handed out, and then raised: no loop misses it.
    """

    def __init__(self, streams: Streams, request_id: int) -> None:
        self.request_id = request_id
        self._streams = streams
        self._is_over = False
        self._error: BaseException | None = None

    def __iter__(self) -> EventStream:
        return self

    def __next__(self) -> Event:
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if self._is_over:
            raise StopIteration
        try:
            event = self._streams.wait(self.request_id)
        except BaseException:
            self.close()
            raise
        if event.finish_reason is not None:
            self._error = event.error
            self.close()
        return event

    def __enter__(self) -> EventStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._streams.abandon(self.request_id)

    def close(self) -> None:
        """End the request now if it has not ended; idempotent."""
        if not self._is_over:
            self._is_over = True
            self._streams.forget(self.request_id)
