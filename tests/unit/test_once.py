"""Properties that are computed once, and hold no lock meanwhile."""

from __future__ import annotations

import threading

from unspool.once import once


class Slow:
    def __init__(self) -> None:
        self.is_computing, self.may_end = threading.Event(), threading.Event()
        self.n_computed = 0

    @once
    def value(self) -> object:
        """What it is."""
        self.n_computed += 1
        self.is_computing.set()
        self.may_end.wait(30)
        return object()


def test_a_value_is_computed_when_it_is_first_asked_for():
    slow = Slow()
    slow.may_end.set()
    assert slow.n_computed == 0
    assert slow.value is slow.value
    assert slow.n_computed == 1
    assert Slow.value.__doc__ == "What it is."


def test_nobody_waits_for_who_computes_that_of_another_object_and_two_get_the_same():
    slow, other, told = Slow(), Slow(), []
    other.may_end.set()
    threads = [threading.Thread(target=lambda: told.append(slow.value)) for _ in range(2)]
    for thread in threads:
        thread.start()
    slow.is_computing.wait(30)
    assert other.value is other.value  # or a forked child would wait for a thread of its parent
    slow.may_end.set()
    for thread in threads:
        thread.join()
    assert told[0] is told[1]
