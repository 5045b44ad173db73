"""Where a text ends: stop strings, matched in bytes across tokens.

The stop that is complete first wins; of those complete at the same byte the one that starts first
(the longest), then the first in the list. Each stop is followed by a Knuth-Morris-Pratt automaton
(1977, SIAM J. Comput. 6(2)): its state is the length of the longest prefix of the stop that the text ends
with. So the states are also what streaming has to hold back, and nothing else is held.
"""

from __future__ import annotations

from collections.abc import Sequence

from unspool.light_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class StopString:
    """One stop string: its bytes, and for each prefix length the next shorter prefix that ends it."""

    text: str
    data: bytes
    fallback: tuple[int, ...]  # (len(data) + 1,)

    @classmethod
    def compile(cls, text: str) -> StopString:
        data = text.encode()
        fallback = [0, 0]
        n = 0
        for byte in data[1:]:
            while n and data[n] != byte:
                n = fallback[n]
            n += data[n] == byte
            fallback.append(n)
        return cls(text, data, tuple(fallback))

    def advance(self, n: int, byte: int) -> int:
        """The length of the prefix that the text ends with, after one more byte; n < len(data)."""
        while n and self.data[n] != byte:
            n = self.fallback[n]
        return n + (self.data[n] == byte)


@dataclass(frozen=True, slots=True)
class StopMatch:
    """A stop string is complete: it covers bytes [start, end) of the text."""

    stop: str
    start: int
    end: int


class StopMatcher:
    """Follows one text, byte by byte. `accept` moves forward, `rollback` undoes, `fork` copies."""

    def __init__(self, stops: Sequence[StopString]) -> None:
        self._stops = stops
        self._states = [0] * len(stops)
        self._n_bytes = 0
        self._past: list[tuple[list[int], int]] = []  # of each accept, what was before it

    @property
    def n_held(self) -> int:
        """How many of the last bytes may still become part of a stop string."""
        return max(self._states, default=0)

    def accept(self, data: bytes, *, counts: bool = True) -> StopMatch | None:
        """Take a token's bytes; the match they complete, if any. Nothing but a rollback follows a match.

        Matches that do not count are passed over.
        """
        if not self._stops:
            return None
        self._past.append((self._states.copy(), self._n_bytes))
        for byte in data:
            complete = self._advance(byte)
            if complete is not None and counts:
                return StopMatch(complete.text, self._n_bytes - len(complete.data), self._n_bytes)
        return None

    def rollback(self, n: int) -> None:
        """Undo the last n accepts."""
        if not self._stops or n == 0:
            return
        assert n <= len(self._past), f"cannot undo {n} of {len(self._past)} tokens"
        self._states, self._n_bytes = self._past[-n]
        del self._past[-n:]

    def fork(self) -> StopMatcher:
        copy = StopMatcher(self._stops)
        copy._states = self._states.copy()
        copy._n_bytes = self._n_bytes
        copy._past = self._past.copy()
        return copy

    def _advance(self, byte: int) -> StopString | None:
        """The stop string that one more byte completes: the longest, then the first in the list."""
        self._n_bytes += 1
        complete = None
        states = self._states
        for i, stop in enumerate(self._stops):
            states[i] = stop.advance(states[i], byte)
            if states[i] == len(stop.data):
                if complete is None or len(stop.data) > len(complete.data):
                    complete = stop
                states[i] = stop.fallback[-1]
        return complete
