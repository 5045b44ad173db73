"""Values that a thread works out while others do something else."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Event, Thread, current_thread
from typing import Any, Generic, TypeVar

from unspool.forks import attempt, forked, is_interrupted, locked

T = TypeVar("T")


class Background(Generic[T]):
    """A value that a thread works out while the caller does something else.

    A fork waits for it: in the child there would be no such thread, and whatever it was in the middle of,
    the import of a module for one, would be so forever.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._value: list[T] = []
        self._error: BaseException | None = None
        self._is_over = Event()  # a join that is interrupted makes Python believe that the thread has ended
        self._thread = Thread(target=self._run, daemon=True)
        locked.add(self)
        _at_work.add(self)
        try:
            self._thread.start()
        except BaseException:
            _at_work.discard(self)
            raise

    def _run(self) -> None:
        try:
            self._value.append(self._work())
        except BaseException as error:  # raised again where the value is wanted
            self._error = error
        finally:
            _at_work.discard(self)
            self._is_over.set()

    def wait(self) -> None:
        """Until the work is done, whatever came of it; raises nothing of that."""
        self._is_over.wait()

    def result(self) -> T:
        """Raises what the work raised, and in a child whose fork was not let wait for it UnspoolError."""
        self.wait()
        if self._error is not None:
            raise self._error
        if not self._value:
            raise forked()
        return self._value[0]

    def wait_before_fork(self) -> None:
        """Nothing is waited for that has not begun: nobody has it yet who could ask for it in a child."""
        if self._thread.ident is not None and self._thread is not current_thread() and not is_interrupted():
            attempt(self.wait)

    def _unlock_in_child(self) -> None:
        """The thread stayed in the parent process."""
        if self._thread is not current_thread():
            self._is_over = Event()
            self._is_over.set()


_at_work: set[Background[Any]] = set()


def _wait_for_all() -> None:
    for each in list(_at_work):
        each.wait_before_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait_for_all)
