"""Where the engine's thread leaves the events of a request, and where its reader finds them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Protocol, TypeAlias

from unspool.forks import locked
from unspool.types import Event

News: TypeAlias = "tuple[Sequence[Event], bool]"  # of one step, and whether the request has ended


class Bell(Protocol):
    """Wakes readers, many at once."""

    def ring(self) -> None:
        """Wake who has news since the last time. Raises nothing."""
        ...


class Inbox(Protocol):
    """One request's news. The engine's thread alone writes, and sets `request_id` and `is_paused`."""

    is_followed: bool  # its reader wants the news of each step, and not the whole alone
    request_id: int | None  # None before the engine has taken the request in
    is_paused: bool  # the reader is behind; it says `Worker.catch_up` once it is not

    @property
    def n_unread(self) -> int:
        """Steps whose news were not read yet."""
        ...

    @property
    def is_deserted(self) -> bool:
        """Whether nobody can come to read it any more; the request is then cancelled."""
        ...

    def put(self, events: Sequence[Event], is_over: bool) -> Bell | None:
        """News of a step, and what to ring when those of all requests are there; None where the reader hears
        of them by itself. May raise when the reader is gone; the request is then cancelled."""
        ...

    def fail(self, error: BaseException) -> None:
        """A step has failed, and with it the request: this is raised to its reader."""
        ...


class Mailbox:
    """For a thread that waits for every step."""

    is_followed = True
    is_deserted = False  # whoever has the stream may read it

    def __init__(self) -> None:
        self.request_id: int | None = None
        self.is_paused = False
        self._news: SimpleQueue[News | BaseException] = SimpleQueue()

    @property
    def n_unread(self) -> int:
        return self._news.qsize()

    def put(self, events: Sequence[Event], is_over: bool) -> None:
        self._news.put((events, is_over))

    def fail(self, error: BaseException) -> None:
        self._news.put(error)

    def get(self) -> News:
        """The next news, when there are some; raises what made the request fail."""
        return opened(self._news.get())

    def close(self) -> None:
        """Nothing comes any more; who still waits is told that the stream has ended. From any thread."""
        self._news.put(((), True))


class Gathered:
    """For who waits for the whole answer: nobody is woken before it is there.

    `whole` has all events, as a rule one for each answer. A thread asks for its result, a coroutine wraps it.
    """

    is_followed = False
    n_unread = 0
    is_deserted = False

    def __init__(self) -> None:
        self.request_id: int | None = None
        self.is_paused = False
        self.whole: Future[list[Event]] = Future()
        self.whole.set_running_or_notify_cancel()  # who does not want it any more tells the worker
        self._events: list[Event] = []
        locked.add(self)

    def _unlock_in_child(self) -> None:
        """A thread that stayed in the parent may just have begun to wait. (Future has no public way.)"""
        self.whole._condition = threading.Condition()

    def put(self, events: Sequence[Event], is_over: bool) -> None:
        self._events += events
        if is_over:
            self.whole.set_result(self._events)

    def fail(self, error: BaseException) -> None:
        self.whole.set_exception(error)


def opened(news: News | BaseException) -> News:
    """News, or the error that came in their place."""
    if isinstance(news, BaseException):
        raise news
    return news
