"""The events of one request, as they come, for a coroutine that reads them."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from unspool.engine.inbox import News, opened
from unspool.engine.prompt import checked_priority
from unspool.engine.worker import Worker
from unspool.forks import forked, locked
from unspool.types import Event, Request


class AsyncEventStream:
    """An asynchronous iterator over the events of one request, which begins with the first step of it.

    The last event of each answer has a finish_reason. The request runs ahead of its reader, by no more
    than Limits.n_unread steps. `aclose` cancels it, and so do leaving an `async with` block early,
    cancelling the task that waits, and dropping the stream; `cancel` leaves its last events to be read. An
    event whose `error` is set is handed out, and then raised.
    """

    def __init__(self, worker: Worker, make_request: Callable[[], Request]) -> None:
        """`make_request` is called in another thread, for it may have a long text to tokenize."""
        self._worker = worker
        self._make_request: Callable[[], Request] | None = make_request
        self._inbox: LoopInbox | None = None  # while the request is in flight
        self._request_id: int | None = None
        self._unread: deque[Event] = deque()
        self._error: BaseException | None = None
        self._priority: int | None = None  # for a request that has not begun
        self._is_waiting = False
        self._is_closed = False
        locked.add(self)

    @property
    def request_id(self) -> int | None:
        """What its events are marked with; None before it has begun."""
        return self._request_id

    def __aiter__(self) -> AsyncEventStream:
        return self

    async def __anext__(self) -> Event:
        while not self._unread:
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            if self._is_waiting:
                raise RuntimeError("two tasks read one stream; give each a stream of its own")
            self._is_waiting = True
            try:
                await self._receive()
            except BaseException:
                self._abandon()
                raise
            finally:
                self._is_waiting = False
        event = self._unread.popleft()
        self._error = self._error or event.error
        return event

    def _unlock_in_child(self) -> None:
        """Who read it stayed in the parent process, and so did a request that it was about to make."""
        if self._is_waiting and (self._inbox is None or self._inbox.request_id is None):
            self._error = forked()
        self._is_waiting = False

    async def _receive(self) -> None:
        if self._make_request is not None:
            make_request, self._make_request = self._make_request, None
            request = await asyncio.to_thread(make_request)
            if self._priority is not None:
                request = replace(request, priority=self._priority)
            self._inbox = inbox = LoopInbox(_bell_of(asyncio.get_running_loop()))
            if not self._is_closed:
                await asyncio.wrap_future(self._worker.submit_open([request], [inbox]))
                self._request_id = inbox.request_id
            if self._is_closed:  # meanwhile, maybe before the worker had heard of the request
                self._worker.abandon([inbox])
                raise StopAsyncIteration
        if (inbox_now := self._inbox) is None:
            raise StopAsyncIteration
        events, is_over = await inbox_now.get()
        if inbox_now.is_paused:
            self._worker.catch_up(inbox_now)
        self._unread.extend(events)
        if is_over:
            self._inbox = None

    def set_priority(self, priority: int) -> None:
        """Run before requests of a lower priority from now on; no token changes."""
        self._priority = checked_priority(priority)
        if self._inbox is not None:
            self._worker.set_priority(self._inbox, priority)

    async def __aenter__(self) -> AsyncEventStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def cancel(self) -> None:
        """End the request as it stands, and leave what there is to be read: see EventStream.cancel. One that
        has not begun never does, and leaves nothing."""
        if (inbox := self._inbox) is not None:
            await asyncio.to_thread(self._worker.cancel, inbox)
        else:
            self._is_closed = True
            self._make_request = None

    async def aclose(self) -> None:
        """End the request now if it has not ended, and drop what was not read; idempotent."""
        self._is_closed = True
        self._unread.clear()
        self._error = None
        self._make_request = None
        if (inbox := self._inbox) is not None:
            self._abandon()
            await asyncio.to_thread(self._worker.forget, [inbox])

    def _abandon(self) -> None:
        self._make_request = None
        if (inbox := self._inbox) is not None:
            self._inbox = None
            inbox.close()
            self._worker.abandon([inbox])

    def __del__(self) -> None:
        if self._inbox is not None:
            self._worker.abandon([self._inbox])


class LoopInbox:
    """For a coroutine that waits for every step."""

    is_followed = True

    def __init__(self, bell: LoopBell) -> None:
        self.request_id: int | None = None
        self.is_paused = False
        self._bell = bell
        self._news: deque[News | BaseException] = deque()
        self._waiter: asyncio.Future[None] | None = None

    @property
    def n_unread(self) -> int:
        return len(self._news)

    @property
    def is_deserted(self) -> bool:
        return self._bell.loop.is_closed()

    def put(self, events: Sequence[Event], is_over: bool) -> LoopBell:
        self._news.append((events, is_over))
        self._bell.add(self)
        return self._bell

    def fail(self, error: BaseException) -> None:
        self._news.append(error)
        self._bell.add(self)
        self._bell.ring()

    async def get(self) -> News:
        while not self._news:
            if asyncio.get_running_loop() is not self._bell.loop:
                raise RuntimeError("the stream began in another loop, which wakes its reader; read it there")
            self._waiter = self._bell.loop.create_future()
            await self._waiter
        return opened(self._news.popleft())

    def wake(self) -> None:
        """On the thread of the loop."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        """Nothing comes any more; who still waits is told that the stream has ended. From any thread, also
        when the loop is closed."""
        self._news.append(((), True))
        with suppress(RuntimeError):  # in a closed loop nobody waits
            self._bell.loop.call_soon_threadsafe(self.wake)


class LoopBell:
    """Wakes the readers of one loop, all that have news of a step at once: whoever rings gives the loop's
    thread its chance to run, and has to wait for it then."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._rung_for: deque[LoopInbox] = deque()
        self._is_ringing = False

    def add(self, inbox: LoopInbox) -> None:
        """An inbox has news. On the engine's thread; raises RuntimeError when the loop is closed."""
        if self.loop.is_closed():  # before it answered what was rung last, maybe
            self._rung_for.clear()
            raise RuntimeError("the loop of the reader is closed")
        self._rung_for.append(inbox)

    def ring(self) -> None:
        """On the engine's thread."""
        if not self._is_ringing:
            self._is_ringing = True
            try:
                self.loop.call_soon_threadsafe(self._answer)
            except RuntimeError:  # it has just been closed, which the next news will find
                self._is_ringing = False

    def _answer(self) -> None:
        # Before the look, so that whoever comes after it rings again.
        self._is_ringing = False
        while self._rung_for:
            self._rung_for.popleft().wake()


_bells: weakref.WeakValueDictionary[int, LoopBell] = (
    weakref.WeakValueDictionary()
)  # by id of the loop they hold


def _bell_of(loop: asyncio.AbstractEventLoop) -> LoopBell:
    """Asked on the thread of the loop, so that no two threads make one for the same."""
    bell = _bells.get(id(loop))
    if bell is None:
        bell = _bells[id(loop)] = LoopBell(loop)
    return bell
