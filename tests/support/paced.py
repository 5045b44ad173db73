"""A toy model that a test lets go step by step, and doors to it."""

from __future__ import annotations

import threading

from toy_engine import ToyVocabulary

from unspool.runners.toy import ToyRunner

LETTERS = ToyVocabulary([b"</s>", b"a", b"b", b"ab", b" ", b"c", b"d", b"\n"], ends=(0,))
LETTERS.bos_id = None  # type: ignore[attr-defined]


class PacedRunner(ToyRunner):
    """Waits before each forward pass while it is held, and raises what it is told to."""

    def __init__(self, **settings) -> None:
        super().__init__(**{"context_length": 256, "n_pages": 400, **settings})
        self.fails: BaseException | None = None
        self.n_left: int | None = None  # forward passes before it is held; None is no end
        self.is_held = threading.Event()
        self._may_go = threading.Condition()

    def forward(self, plan):
        with self._may_go:
            while self.n_left == 0:
                self.is_held.set()
                self._may_go.wait(30)
            if self.n_left is not None:
                self.n_left -= 1
        if self.fails is not None:
            raise self.fails
        return super().forward(plan)

    def let(self, n: int | None) -> None:
        """Go n forward passes further, or on without end."""
        with self._may_go:
            self.is_held.clear()
            self.n_left = n
            self._may_go.notify_all()


def wait_until(is_so, seconds: float = 30.0) -> None:
    """Until another thread has come so far; fails when it never does."""
    pause = threading.Event()
    for _ in range(int(seconds / 0.002)):
        if is_so():
            return
        pause.wait(0.002)
    raise AssertionError("it never came so far")
