"""The events of one request, as they come, for a thread that reads them."""

from __future__ import annotations

import threading
from collections import deque

from unspool.engine.inbox import Mailbox
from unspool.engine.prompt import checked_priority
from unspool.engine.worker import Worker
from unspool.forks import locked
from unspool.types import Event, Request


class EventStream:
    """An iterator over the events of one request. The last one of each answer has a finish_reason.

    The request runs ahead of its reader, by no more than Limits.n_unread steps. `close` cancels it, and so
    do leaving a `with` block early, an exception (Ctrl-C is one) and dropping the stream; `cancel` leaves its
    last events to be read. An event whose `error` is set is handed out, and then raised: no loop misses it.

    One thread reads it at a time. Any thread may close it, and who waits for it is told that it has ended.
    """

    def __init__(self, worker: Worker, request: Request) -> None:
        """Begin the request; raises what Engine.add raises."""
        self._is_over = True  # so that there is nothing to abandon before it has begun
        self._worker = worker
        self._inbox = Mailbox()
        self._reading = threading.Lock()  # held by who waits for news
        self._unread: deque[Event] = deque()
        self._error: BaseException | None = None
        locked.add(self)
        worker.open([request], [self._inbox])
        self._is_over = False

    @property
    def request_id(self) -> int:
        """What its events are marked with."""
        assert self._inbox.request_id is not None, "it is open"
        return self._inbox.request_id

    def __iter__(self) -> EventStream:
        return self

    def __next__(self) -> Event:
        while (event := self._taken()) is None:
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            if self._is_over:
                raise StopIteration
            if not self._reading.acquire(blocking=False):
                raise RuntimeError("two threads read one stream; give each a stream of its own")
            try:
                self._receive()
            finally:
                self._reading.release()
        self._error = self._error or event.error
        return event

    def _unlock_in_child(self) -> None:
        """Who read it stayed in the parent process."""
        self._reading = threading.Lock()

    def _taken(self) -> Event | None:
        try:
            return self._unread.popleft()
        except IndexError:  # none has come, or another thread has closed it
            return None

    def _receive(self) -> None:
        try:
            events, is_over = self._inbox.get()
            if self._inbox.is_paused:
                self._worker.catch_up(self._inbox)
        except BaseException:
            self.close()
            raise
        if not self._is_over:  # or it was closed meanwhile
            self._unread.extend(events)
            self._is_over = is_over

    def set_priority(self, priority: int) -> None:
        """Run before requests of a lower priority from now on; no token changes."""
        self._worker.set_priority(self._inbox, checked_priority(priority))

    def __enter__(self) -> EventStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._worker.abandon([self._inbox])

    def cancel(self) -> None:
        """End the request as it stands, and leave what there is to be read: the text up to here, and behind
        it the last event of each answer, with the finish reason "cancelled". Waits for the end of a step, but
        not on a thread that runs an engine; idempotent. Raises nothing, also when the model is closed."""
        if not self._is_over:
            self._worker.cancel(self._inbox)

    def close(self) -> None:
        """End the request now if it has not ended, and drop what was not read; idempotent."""
        self._unread.clear()
        self._error = None
        if not self._is_over:
            self._is_over = True
            self._worker.forget([self._inbox])
            self._inbox.close()
