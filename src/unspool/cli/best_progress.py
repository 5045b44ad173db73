"""How far `unspool best` has come, while it judges and when it is broken off."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unspool.best import Judged


class Counter:
    """A line on the terminal that counts, and is taken away at the end; nothing where it would disturb."""

    def __init__(self, n: int, *, is_shown: bool) -> None:
        self._n, self._n_judged, self._is_shown = n, 0, is_shown

    def __call__(self, _: Judged) -> None:
        self._n_judged += 1
        self._write(f"\rjudged {self._n_judged} of {self._n}\x1b[K")

    @property
    def line(self) -> str:
        return f"judged: {self._n_judged} of {self._n} answers"

    def close(self) -> None:
        self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        if self._is_shown:
            print(text, end="", file=sys.stderr, flush=True)
