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

    def begin_in_child(self) -> None:
        """The process was forked between two steps, and here there is no thread."""
        ...

    def close(self) -> None:
        """End the thread."""
        ...


running: weakref.WeakSet[Running] = weakref.WeakSet()  # those whose thread is alive
_go_on = threading.Event()


@atexit.register
def _end_threads() -> None:
    """No thread may be inside a forward pass when the interpreter goes."""
    for each in list(running):
        each.close()


def _park_all() -> None:
    """Hold every thread between two steps: what the child gets is whole."""
    _go_on.clear()
    for each in list(running):
        thread = each.thread
        if thread is None or thread is threading.current_thread():
            continue
        is_parked = threading.Event()
        each.post(partial(_park, is_parked))
        while not is_parked.wait(0.1) and thread.is_alive():
            pass


def _park(is_parked: threading.Event) -> None:
    is_parked.set()
    _go_on.wait()


def _begin_in_child() -> None:
    left = list(running)
    running.clear()
    for each in left:
        each.begin_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_park_all, after_in_parent=_go_on.set, after_in_child=_begin_in_child)
