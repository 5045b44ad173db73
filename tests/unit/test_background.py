"""A value that another thread works out: what comes of it, and of a fork in the meantime."""

from __future__ import annotations

import os

import pytest
from processes import in_a_process

from unspool.background import Background


def test_what_the_work_returns_or_raises_comes_to_who_asks():
    assert Background(lambda: 3).result() == 3
    failed = Background(lambda: 1 / 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            failed.result()


def in_a_child(interrupt: str) -> str:
    """What became of a child that asks for a value which its parent was working out when it forked."""
    program = f"""
import os, signal, threading
from unspool.background import Background
from unspool.errors import UnspoolError
signal.alarm(30)
signal.signal(signal.SIGINT, signal.default_int_handler)
is_waited_for, may_end = threading.Event(), threading.Event()
class Noted(Background):
    def wait(self):
        is_waited_for.set()
        super().wait()
def work():
    is_waited_for.wait(30)
    {interrupt or "pass"}
    return 3
value, is_over = Noted(work), False
try:
    child = os.fork()
except KeyboardInterrupt:
    is_over, child = True, 1
if child == 0:
    try:
        os._exit(value.result() != 3)
    except UnspoolError as problem:
        os._exit(5 if problem.code == "forked" else 6)
said = os.waitstatus_to_exitcode(os.wait()[1])
may_end.set()
assert (value.result(), is_over) == (3, {bool(interrupt)})
print(said)
"""
    return in_a_process(program).strip()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_waits_for_the_work_so_that_the_child_has_its_value():
    assert in_a_child("") == "0"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_whose_fork_was_not_let_wait_says_so():
    assert in_a_child("os.kill(os.getpid(), signal.SIGINT); may_end.wait(30)") == "5"
