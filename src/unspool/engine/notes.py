"""What is known about a branch's tokens, told in step with its text."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

from unspool.types import Chosen


class Notes:
    """Tokens that were chosen and not yet told: `accept` one, `take` those that are told now.

    `rollback` undoes what was not taken, `fork` copies. The transcript decides what is told; what it cuts
    off is never taken. Where nobody asked for more than tokens, nothing is kept or told.
    """

    def __init__(self, *, is_wanted: bool = True) -> None:
        self._is_wanted = is_wanted
        self._waiting: deque[Chosen] = deque()

    def accept(self, chosen: Chosen) -> None:
        if self._is_wanted:
            self._waiting.append(chosen)

    def take(self, token_ids: Sequence[int]) -> list[Chosen]:
        """The tokens that the transcript has just released, with what is known about each."""
        if not self._is_wanted:
            return []
        told = [self._waiting.popleft() for _ in token_ids]
        assert [chosen.token_id for chosen in told] == list(token_ids), "text and notes are out of step"
        return told

    def peek(self, first: int, last: int) -> list[Chosen]:
        """Tokens [first, last) of those that were not told, which stay so."""
        return list(islice(self._waiting, first, last))

    def rollback(self, n: int) -> None:
        """Undo the last n tokens."""
        if not self._is_wanted:
            return
        assert n <= len(self._waiting), "what was told stays"
        for _ in range(n):
            self._waiting.pop()

    def fork(self) -> Notes:
        copy = Notes(is_wanted=self._is_wanted)
        copy._waiting = self._waiting.copy()
        return copy
