"""How others talk to the thread that runs an engine: ask, wait, give up, close."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from unspool.engine.engine import Engine
from unspool.engine.engine_thread import EngineThread
from unspool.engine.inbox import Gathered, Inbox
from unspool.errors import UnspoolError
from unspool.types import Event, Request

_T = TypeVar("_T")


class Worker:
    """An engine and its thread, which starts with the first command.

    The thread ends with `close`, with the process, or when nobody holds the worker any more.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._thread = EngineThread(engine)
        # The thread knows nothing of the worker, so a worker that is dropped can tell it to end.
        weakref.finalize(self, _drop, self._thread).atexit = False

    def submit(self, work: Callable[[], _T]) -> Future[_T]:
        """Have the thread do something with the engine between two steps."""
        return self._thread.submit(work)

    def call(self, work: Callable[[], _T]) -> _T:
        """`submit`, and wait: what it returns or raises."""
        return self.submit(work).result()

    def open(self, requests: Sequence[Request], inboxes: Sequence[Inbox]) -> None:
        """Add requests, all or none; raises what Engine.add raises."""
        try:
            self.submit_open(requests, inboxes).result()
        except BaseException:
            self.abandon(inboxes)
            raise

    def submit_open(self, requests: Sequence[Request], inboxes: Sequence[Inbox]) -> Future[None]:
        """`open` for who waits in another way; `abandon` the inboxes when the wait is given up."""
        return self.submit(partial(self._thread.open, requests, inboxes))

    def complete(self, requests: Sequence[Request]) -> list[list[Event]]:
        """All events of each request, run side by side."""
        inboxes = [Gathered() for _ in requests]
        self.open(requests, inboxes)
        try:
            return [inbox.whole.result() for inbox in inboxes]
        except BaseException:
            self.forget(inboxes)
            raise

    def forget(self, inboxes: Sequence[Inbox]) -> None:
        """Cancel requests as far as they are in flight, and wait until that is done; idempotent.

        Nobody waits on a thread that runs an engine, or for one that has not begun: a stream may be closed by
        a finalizer, and those run wherever they are found.
        """
        self._end(partial(self._thread.forget, inboxes))

    def cancel(self, inbox: Inbox) -> None:
        """End a request, whose last events its reader still gets, and wait until that is done, as `forget`
        does; idempotent."""
        self._end(partial(self._thread.cancel, inbox))

    def abandon(self, inboxes: Sequence[Inbox]) -> None:
        """`forget` without waiting, also from finalizers."""
        self._thread.post(partial(self._thread.forget, inboxes))

    def catch_up(self, inbox: Inbox) -> None:
        """The reader of a paused request has read on."""
        if inbox.n_unread <= self._thread.n_unread_low:
            self._thread.post(partial(self._thread.resume, inbox))

    def set_priority(self, inbox: Inbox, priority: int) -> None:
        """Change the priority of a request, for the steps to come."""
        self._thread.post(partial(self._thread.set_priority, inbox, priority))

    def _end(self, work: Callable[[], object]) -> None:
        """Have the thread do what does nothing a second time, nor when the model is closed."""
        if not self._thread.may_wait:
            self._thread.post(work)
            return
        try:
            self.call(work)
        except UnspoolError:
            assert self._thread.is_closed, "nothing else is refused"
        except BaseException:
            self._thread.post(work)
            raise

    def close(self) -> None:
        """Cancel everything, end the thread and close the engine; idempotent.

        Readers that wait still get their last event.
        """
        self._thread.close()


def _drop(thread: EngineThread) -> None:
    thread.post(thread.end)
