"""The one thread that runs an engine: it obeys commands, steps, and delivers.

Commands go in through a queue and are obeyed between two steps, in order; events come out to the inbox
of each request. Nothing else touches the engine, so no lock guards it, and Ctrl-C, which Python raises in the
main thread, never meets half a step. Without work the thread sleeps on its queue.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from unspool.engine.engine import Engine
from unspool.engine.inbox import Bell, Inbox
from unspool.engine.process import SteppingThread, between_forks, running, start
from unspool.errors import BadRequest, CapacityError, UnspoolError
from unspool.forks import forked, locked
from unspool.types import Event, Request

_T = TypeVar("_T")
_Command = tuple[Callable[[], object], "Future[Any] | None"]


class EngineThread:
    """An engine, the commands that wait for its thread, and who hears of its events.

    The thread holds this and nothing of `Worker`, which ends it when nobody holds the worker any more.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.n_unread_low: Final = engine.limits.n_unread // 2
        self.is_closed = False
        self._failure: UnspoolError | None = None
        self._inboxes: dict[int, Inbox] = {}
        self.begin()
        locked.add(self)

    def begin(self) -> None:
        """No thread and nothing to do."""
        self.commands: SimpleQueue[_Command] = SimpleQueue()  # `put` may be called from finalizers
        self._unlock_in_child()
        self.thread: SteppingThread | None = None
        self._has_left = threading.Event()
        self._has_ended = False

    def _unlock_in_child(self) -> None:
        """A gate that no thread holds."""
        # After `is_closed` is set nobody waits for an answer. A finalizer may come in a second time.
        self.gate = threading.RLock()

    # On any thread

    @property
    def may_wait(self) -> bool:
        """Whether an answer would come to this thread, whatever it is in the middle of."""
        thread = self.thread
        if isinstance(threading.current_thread(), SteppingThread):
            return False  # its own, or one that a fork waits for while it holds this one
        return thread is not None and thread.is_alive()

    def submit(self, work: Callable[[], _T]) -> Future[_T]:
        future: Future[_T] = Future()
        while not self._put(work, future):
            # In this order: a fork amid the start would leave the child a gate that nobody opens.
            with between_forks, self.gate:
                if self.thread is None and not self.is_closed:
                    self._start()
        return future

    def _put(self, work: Callable[[], _T], future: Future[_T]) -> bool:
        """Hand a command over where there is a thread. Raises BadRequest or what the engine died of."""
        with self.gate:
            if self.is_closed:
                raise self._failure or BadRequest("the model is closed; load it again", code="closed")
            if self.thread is threading.current_thread():
                raise BadRequest(
                    "the model was asked on the thread that runs it, which would wait for itself; ask on "
                    "another thread",
                    code="own_thread",
                )
            if self.thread is None:
                return False
            self.commands.put((work, future))
        return True

    def _start(self) -> None:
        thread = SteppingThread(target=self._run, name="unspool-worker", daemon=True)
        if self.thread is not None:
            return  # a finalizer was here
        self.thread = thread
        try:
            start(self, thread)
        except BaseException as problem:
            self.thread = None
            if not isinstance(problem, RuntimeError):
                raise
            raise CapacityError(
                f"the system gives no thread to run the model on ({problem}); end some, or raise the limit",
                code="out_of_threads",
            ) from None

    def post(self, work: Callable[[], object]) -> None:
        """Have the thread do something if it is there, also from finalizers: nothing is waited for."""
        self.commands.put((work, None))

    def close(self) -> None:
        with self.gate:
            self.is_closed = True
            thread = self.thread
            if thread is None:
                # What failed has closed its runners; what is not whole is not touched.
                if self._failure is None:
                    self.engine.close()
                return
            self.post(self.end)
        if thread is not threading.current_thread():
            self._has_left.wait()  # a join that is interrupted makes Python believe that the thread has ended
            thread.join()

    def begin_in_child(self, is_whole: bool) -> None:
        """The thread stayed in the parent process, and so did the requests."""
        self.begin()
        if is_whole:
            try:
                self.fail_all(forked())
            except Exception as error:  # there are others that have to begin
                self._break(error)
            return
        self.is_closed = True  # what is not whole is not touched
        self._failure = UnspoolError(
            "the process was forked amid a step of the model, whose parent alone can run it; load it again",
            code="forked",
        )
        for inbox in self._inboxes.values():
            _tell(inbox, forked())

    # On the engine's thread

    def open(self, requests: Sequence[Request], inboxes: Sequence[Inbox]) -> None:
        added: dict[int, Inbox] = {}
        try:
            for request, inbox in zip(requests, inboxes, strict=True):
                added[self.engine.add(request, is_followed=inbox.is_followed)] = inbox
        except BaseException:
            for request_id in added:
                self.engine.cancel(request_id)
            raise
        for request_id, inbox in added.items():
            inbox.request_id = request_id
        self._inboxes |= added

    def forget(self, inboxes: Sequence[Inbox]) -> None:
        for inbox in inboxes:
            if inbox.request_id is not None and self._inboxes.pop(inbox.request_id, None) is not None:
                self.engine.cancel(inbox.request_id)

    def cancel(self, inbox: Inbox) -> None:
        if inbox.request_id is not None:
            self._deliver(self.engine.cancel(inbox.request_id))

    def resume(self, inbox: Inbox) -> None:
        if inbox.is_paused and inbox.request_id is not None:
            inbox.is_paused = False
            self.engine.resume(inbox.request_id)

    def set_priority(self, inbox: Inbox, priority: int) -> None:
        if inbox.request_id is not None:
            self.engine.set_priority(inbox.request_id, priority)

    def end(self) -> None:
        """Cancel everything; the thread leaves after this."""
        self._has_ended = True
        for request_id in list(self._inboxes):
            self._deliver(self.engine.cancel(request_id))
        self.engine.close()

    def fail_all(self, error: BaseException) -> None:
        """End every request with an error; the engine may go on when its pages add up."""
        inboxes, self._inboxes = self._inboxes, {}
        try:
            for request_id in inboxes:
                self.engine.cancel(request_id)
            self.engine.check()
        finally:
            for inbox in inboxes.values():
                _tell(inbox, error)

    def _run(self) -> None:
        if hasattr(signal, "pthread_sigmask"):  # Ctrl-C has to wake the main thread
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            while not self._has_ended:
                self._obey()
                if not self._has_ended:
                    self._step()
        except BaseException as error:
            self._break(error)
        finally:
            running.discard(self)
            self._has_left.set()

    def _obey(self) -> None:
        """All commands there are; sleeps for one when there is nothing to run."""
        has_looked = False
        while not self._has_ended:
            if not self.engine.is_resting:
                if self.commands.empty():
                    return
                work, future = self.commands.get_nowait()  # nobody else takes any
            else:
                try:
                    work, future = self.commands.get(timeout=self.engine.next_deadline_s())
                except Empty:
                    return
                has_looked = False
            if future is not None and not has_looked:
                self._forget_deserted()
                has_looked = True
            if future is None:
                work()
            elif future.set_running_or_notify_cancel():
                try:
                    result = work()
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(result)
            del work, future  # a sleeping thread keeps no answer alive

    def _forget_deserted(self) -> None:
        """Cancel what is paused for a reader whose loop has closed. No news will find that out, so whoever
        asks something of the worker has it look: until then nobody misses what such a request holds."""
        for inbox in [inbox for inbox in self._inboxes.values() if inbox.is_paused and inbox.is_deserted]:
            self.forget([inbox])

    def _step(self) -> None:
        try:
            events = self.engine.step()
        except BaseException as error:  # of whatever kind: readers wait for it
            self.fail_all(error)
        else:
            self._deliver(events)

    def _deliver(self, events: Sequence[Event]) -> None:
        """One piece of news a request, whose reader is let run ahead no further than the limits say."""
        by_request: dict[int, list[Event]] = {}
        bells: set[Bell] = set()
        for event in events:
            by_request.setdefault(event.request_id, []).append(event)
        try:
            for request_id, its_events in by_request.items():
                if (inbox := self._inboxes.get(request_id)) is not None:
                    self._hand_out(inbox, request_id, its_events, bells)
        finally:  # who has been given news is told of them, whatever is wrong with the others
            for bell in bells:
                bell.ring()

    def _hand_out(self, inbox: Inbox, request_id: int, events: Sequence[Event], bells: set[Bell]) -> None:
        is_over = not self.engine.is_in_flight(request_id)
        if is_over:
            del self._inboxes[request_id]
        try:
            if (bell := inbox.put(events, is_over)) is not None:
                bells.add(bell)
        except Exception:  # nobody is there to read it, or to be told
            self.forget([inbox])
        if not is_over and inbox.n_unread >= self.engine.limits.n_unread:
            inbox.is_paused = True
            self.engine.pause(request_id)
            if inbox.n_unread <= self.n_unread_low:  # read before it could see that it is paused
                self.resume(inbox)

    def _break(self, error: BaseException) -> None:
        """The engine is not what it should be: nothing is run on it any more."""
        self._failure = UnspoolError(f"the engine has failed and is closed: {error!r}", code="engine_failed")
        with self.gate:
            self.is_closed = True
        for inbox in self._inboxes.values():
            _tell(inbox, error)
        while not self.commands.empty():
            _, future = self.commands.get()
            if future is not None and future.set_running_or_notify_cancel():
                future.set_exception(self._failure)
        self.engine.close_runners()


def _tell(inbox: Inbox, error: BaseException) -> None:
    with suppress(Exception):  # nobody is there to hear it, and the others are still to be told
        inbox.fail(error)
