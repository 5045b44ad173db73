"""What becomes of running threads when the process ends or is forked."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Protocol


class Running(Protocol):
    """Has a thread that obeys commands between two steps."""

    thread: threading.Thread | None

    def post(self, work: Callable[[], object]) -> None:
        """Have the thread do something."""
        ...

    def unlock_in_child(self) -> None:
        """The process was forked: what another thread of it held is held by nobody here."""
        ...

    def begin_in_child(self) -> None:
        """The process was forked between two steps, and here there is no thread."""
        ...

    def close(self) -> None:
        """End the thread."""
        ...


known: weakref.WeakSet[Running] = weakref.WeakSet()  # all there are
running: weakref.WeakSet[Running] = weakref.WeakSet()  # those whose thread is alive
between_forks = threading.RLock()  # held by who forks, all the way, and by who starts a thread
_go_on = threading.Event()  # of the last fork


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


def _park_all() -> None:
    """Hold every thread between two steps: what the child gets is whole. Forks of several threads take turns,
    or the end of the first would let go what the second holds. Each has an event of its own, for a thread may
    come to wait for the first when the second has begun."""
    global _go_on
    between_forks.acquire()
    _go_on = go_on = threading.Event()
    for each in list(running):
        thread = each.thread
        if thread is None or thread is threading.current_thread():
            continue
        is_parked = threading.Event()
        each.post(partial(_park, is_parked, go_on))
        while not is_parked.wait(0.1) and thread.is_alive():
            pass


def _park(is_parked: threading.Event, go_on: threading.Event) -> None:
    is_parked.set()
    go_on.wait()


def _go_on_in_parent() -> None:
    _go_on.set()
    between_forks.release()


def _begin_in_child() -> None:
    between_forks.release()  # the thread that forked is here, too
    for each in list(known):
        each.unlock_in_child()
    left = list(running)
    running.clear()
    for each in left:
        each.begin_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_park_all, after_in_parent=_go_on_in_parent, after_in_child=_begin_in_child)
