"""How long an answer's tokens let their reader wait, one after the other."""

from __future__ import annotations

from array import array
from math import fsum

from unspool.types import InterToken


class Gaps:
    """`accept` the time of each token, `fork` a copy. Eight bytes a token; it is looked at once, at the end.

    Time in the queue after a preemption counts: the reader waited. Tokens of one step come together, so
    all but the first of them came after 0 seconds.
    """

    __slots__ = ("_gaps_s", "_last_s")

    def __init__(self) -> None:
        self._gaps_s = array("d")  # (n_tokens - 1,)
        self._last_s: float | None = None

    def accept(self, now: float) -> None:
        if self._last_s is not None:
            self._gaps_s.append(now - self._last_s)
        self._last_s = now

    def fork(self) -> Gaps:
        copy = Gaps()
        copy._gaps_s = self._gaps_s[:]
        copy._last_s = self._last_s
        return copy

    def summary(self) -> InterToken:
        n = len(self._gaps_s)
        if n == 0:
            return InterToken()
        ordered = sorted(self._gaps_s)
        return InterToken(
            n,
            mean_ms=1e3 * fsum(ordered) / n,
            p50_ms=1e3 * ordered[_rank(n, 50)],
            p99_ms=1e3 * ordered[_rank(n, 99)],
            max_ms=1e3 * ordered[-1],
        )


def _rank(n: int, percent: int) -> int:
    """Index of the nearest rank: the least of n ordered values that `percent` of them do not exceed."""
    return -(-n * percent // 100) - 1
