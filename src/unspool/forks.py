"""Forks of the process: no interrupt of what a hook waits for is lost, and the child finds no lock of ours
that nobody opens.

Python prints what a hook of os.register_at_fork raises, and forks all the same. So Ctrl-C in a hook, or what
the handler of any signal raises there, would never reach the program. Hooks that wait do it by `attempt`.
"""

from __future__ import annotations

import _thread
import os
import signal
import threading
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from unspool.errors import UnspoolError


class Locked(Protocol):
    """Has what only the thread that took it gives back."""

    def _unlock_in_child(self) -> None:
        """The process was forked: what another thread of it held is held by nobody here."""
        ...


locked: weakref.WeakSet[Locked] = weakref.WeakSet()  # all there are


def forked() -> UnspoolError:
    """For who waits in a child for what a thread of its parent was about."""
    return UnspoolError("the process was forked; its parent has the answer", code="forked")


def attempt(wait: Callable[[], object]) -> bool:
    """Wait for something before a fork, in a hook: whether that came to its end. It does not when it is
    interrupted, and the program then hears of that as soon as the fork is done."""
    try:
        wait()
    except BaseException as problem:
        if threading.current_thread() is not threading.main_thread():
            raise  # no signal's handler runs here
        _raise_after(problem)
        return False
    return True


def is_interrupted() -> bool:
    """Whether something before this fork has been: then nothing more is waited for."""
    return _Deliver.usual is not None


class _Deliver:
    """In the parent, when the fork is done. A call of it runs nothing that is written in Python, for what was
    raised there would be lost again."""

    __call__: ClassVar[Any] = staticmethod(int)  # does nothing
    usual: ClassVar[Any] = None  # handler of Ctrl-C, while another one stands in its place


def _raise_after(problem: BaseException) -> None:
    """As if a signal came after the fork, whose handler raises this."""
    if _Deliver.usual is None:
        _Deliver.usual = signal.getsignal(signal.SIGINT) or signal.SIG_DFL

    def raise_it(*_: object) -> None:
        _forget()
        raise problem.with_traceback(None)

    signal.signal(signal.SIGINT, raise_it)
    _Deliver.__call__ = staticmethod(_thread.interrupt_main)


def _forget() -> None:
    if _Deliver.usual is not None:
        _Deliver.__call__ = staticmethod(int)
        signal.signal(signal.SIGINT, _Deliver.usual)
        _Deliver.usual = None


def _begin_in_child() -> None:
    _forget()  # it is the parent that was interrupted
    for each in list(locked):
        each._unlock_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_parent=_Deliver(), after_in_child=_begin_in_child)
