"""What becomes of threads that run engines when the process ends or is forked."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterable
from functools import partial
from math import inf
from time import monotonic
from typing import Final, Protocol

from unspool.forks import attempt, is_interrupted


class SteppingThread(threading.Thread):
    """A thread that runs an engine: who waits on one for another may wait for what a fork holds."""


class Running(Protocol):
    """Has a thread that obeys commands between two steps."""

    thread: SteppingThread | None

    def post(self, work: Callable[[], object]) -> None:
        """Have the thread do something."""
        ...

    def begin_in_child(self, is_whole: bool) -> None:
        """The process was forked, between two steps where it is whole, and here there is no thread."""
        ...

    def close(self) -> None:
        """End the thread."""
        ...


running: set[Running] = set()  # those whose thread is alive, and holds them
between_forks = threading.RLock()  # held by who forks, all the way, and by who starts a thread
_PATIENCE_S: Final = 0.5
_held: set[threading.Thread] = set()  # stand between two steps until nobody holds `between_forks`
_whole: set[Running] = set()  # all, while a fork holds every one until it is done; else none


def start(owner: Running, thread: threading.Thread) -> None:
    """Start the thread of one that is from now on among those that run; not amid a fork, whose child would
    find it where it was."""
    with between_forks:
        running.add(owner)
        try:
            thread.start()
        except BaseException:
            running.discard(owner)
            raise


@atexit.register
def _end_threads() -> None:
    """No thread may be inside a forward pass when the interpreter goes."""
    for each in list(running):
        each.close()


def _before_fork() -> None:
    """Hold every thread between two steps: what the child gets is whole. Forks of several threads take
    turns. Who interrupts that is told after the fork, whose child has no model to use."""
    _take_turn()
    if not is_interrupted() and attempt(_hold_all):
        _whole.update(running)


def _take_turn() -> None:
    """Once, also when an interrupt comes as the lock is given, which `attempt` hears of."""
    is_ours = between_forks._is_owned  # type: ignore[attr-defined]  # which Condition asks, too
    while not attempt(between_forks.acquire) and not is_ours():
        pass


def _hold_all() -> None:
    """One that is long in coming may wait for another that is held already, or for its turn to fork or to
    start a thread: then all go on until it has come so far, and are held anew, that one first."""
    patience_s = _PATIENCE_S
    late = _first_late(running, patience_s)
    while late is not None:
        began = monotonic()
        between_forks.release()
        try:
            _has_come(late)
        finally:
            _take_turn()
        patience_s = 2 * max(patience_s, monotonic() - began)
        late = _first_late(sorted(running, key=lambda each: each is not late), patience_s)


def _first_late(those: Iterable[Running], patience_s: float) -> Running | None:
    """Hold them, one after the other; the first that does not come in time."""
    return next((each for each in list(those) if not _has_come(each, patience_s)), None)


def _has_come(each: Running, patience_s: float = inf) -> bool:
    """Whether a thread comes in time to stand between two steps, where it stays if it is this one's turn."""
    thread = each.thread
    if thread is None or thread is threading.current_thread():
        return True
    is_there, until = threading.Event(), monotonic() + patience_s
    if thread not in _held:
        each.post(partial(_stand, is_there))
    while each in running and thread not in _held and not is_there.wait(min(0.1, patience_s)):
        if monotonic() >= until:
            return False
    return True


def _stand(is_there: threading.Event) -> None:
    """Wait on a thread that runs an engine for the end of a fork."""
    thread = threading.current_thread()
    _held.add(thread)
    is_there.set()
    with between_forks:  # no fork finds it among those that are held when it is not
        _held.discard(thread)


def _begin_in_child() -> None:
    between_forks.release()  # the thread that forked is here, too
    _held.clear()
    left = [(each, each in _whole) for each in list(running)]
    running.clear()
    _whole.clear()
    for each, is_whole in left:
        each.begin_in_child(is_whole)


if hasattr(os, "register_at_fork"):
    # In this order, and neither is Python code, in which Ctrl-C could come before the threads are let go.
    os.register_at_fork(after_in_parent=_whole.clear)
    os.register_at_fork(
        before=_before_fork, after_in_parent=between_forks.release, after_in_child=_begin_in_child
    )
