"""How long an answer's tokens let their reader wait, one after the other."""

from __future__ import annotations

from array import array
from itertools import pairwise
from math import fsum

from unspool.types import InterToken


class Gaps:
    """`accept` the time of each token, `fork` a copy. Eight bytes a token; it is looked at once, at the end.

    Time in the queue after a preemption counts: the reader waited. Tokens of one step come together, so
    all but the first of them came after 0 seconds.
    """

    __slots__ = ("_times_s",)

    def __init__(self) -> None:
        self._times_s = array("d")  # (n_tokens,)

    def accept(self, now: float) -> None:
        self._times_s.append(now)

    def fork(self) -> Gaps:
        copy = Gaps()
        copy._times_s = self._times_s[:]
        return copy

    def summary(self) -> InterToken:
        ordered = sorted(after - before for before, after in pairwise(self._times_s))
        n = len(ordered)
        if n == 0:
            return InterToken()
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
