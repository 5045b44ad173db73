"""How far `unspool best` has come, while it judges and when it is broken off."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unspool.best import Judged


class Counter:
    """A line on the terminal that counts, and is taken away at the end; nothing where it would disturb."""

    def __init__(self, n: int, *, is_shown: bool) -> None:
        self._n, self._is_shown = n, is_shown
        self.judged: list[Judged] = []

    def __call__(self, judged: Judged) -> None:
        self.judged.append(judged)
        self._write(f"\rjudged {len(self.judged)} of {self._n}\x1b[K")

    @property
    def line(self) -> str:
        return f"judged: {len(self.judged)} of {self._n} answers"

    def close(self) -> None:
        self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        if self._is_shown:
            print(text, end="", file=sys.stderr, flush=True)
