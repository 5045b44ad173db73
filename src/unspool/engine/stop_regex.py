"""Where a text ends: stop patterns, followed character by character across tokens.

The match that is complete first wins, of those complete at the same character the one that starts first,
then the first in the list. For each place in a pattern where a match could be, the earliest start of such a
match is kept: what comes after depends on the place alone, so no other start can win. The earliest of them
all is also where the text has to be held back from, and nothing before it is held.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from typing import Final

from unspool.automaton import MATCH, Automaton
from unspool.engine.stop import StopMatch

_UTF8: Final = codecs.getincrementaldecoder("utf-8")

Threads = dict[int, int]  # a place of the automaton: the byte at which its earliest match starts


class RegexMatcher:
    """Follows one text. `accept` moves forward, `rollback` undoes, `fork` copies.

    Bytes that are no UTF-8 read as U+FFFD, as in the text that is reported. An assertion about the next
    character (`\\b`) is settled when that has come; when the text ends before, it is not.
    """

    def __init__(self, automata: Sequence[Automaton]) -> None:
        self._automata = automata
        self._threads: tuple[Threads, ...] = tuple({} for _ in automata)  # replaced, never written to
        self._characters = _Characters()
        self._before: str | None = None  # the last character
        self._past: list[tuple[tuple[Threads, ...], tuple[bytes, int], str | None]] = []

    @property
    def n_held(self) -> int:
        """How many of the last bytes may still become part of a match."""
        if not self._automata:
            return 0
        n_bytes, n_waiting = self._characters.n_bytes, self._characters.n_waiting
        starts = [start for threads in self._threads for start in threads.values()]
        return n_bytes - min(starts, default=n_bytes - n_waiting)

    def accept(self, data: bytes, *, counts: bool = True) -> StopMatch | None:
        """Take a token's bytes; the match they complete, if any. Nothing but a rollback follows a match.

        Matches that do not count are passed over.
        """
        if not self._automata:
            return None
        self._past.append((self._threads, self._characters.state, self._before))
        for character, first, last in self._characters.accept(data):
            match = self._advance(character, first, last, counts)
            if match is not None:
                return match
        return None

    def rollback(self, n: int) -> None:
        """Undo the last n accepts."""
        if not self._automata or n == 0:
            return
        assert n <= len(self._past), f"cannot undo {n} of {len(self._past)} tokens"
        self._threads, self._characters.state, self._before = self._past[-n]
        del self._past[-n:]

    def fork(self) -> RegexMatcher:
        copy = RegexMatcher(self._automata)
        copy._threads = self._threads
        copy._characters.state = self._characters.state
        copy._before = self._before
        copy._past = self._past.copy()
        return copy

    def _advance(self, character: str, first: int, last: int, counts: bool) -> StopMatch | None:
        """One character, bytes [first, last) of the text."""
        best: tuple[int, int, int] | None = None  # end, start, number of the pattern
        advanced: list[Threads] = []
        for i, automaton in enumerate(self._automata):
            threads, atoms = self._threads[i], automaton.atoms_of(character)
            if not threads and not atoms & automaton.first_atoms:
                advanced.append(threads)
                continue
            here = self._settled(automaton, threads, character, first)
            after: Threads = {}
            for place, start in here.items():
                if place != MATCH and automaton.places[place].atom & atoms:
                    for follower in automaton.places[place].followers:
                        after[follower] = min(start, after.get(follower, start))
            for end, ended in ((first, here.get(MATCH)), (last, after.pop(MATCH, None))):
                if ended is not None and (best is None or (end, ended, i) < best):
                    best = end, ended, i
            advanced.append(after)
        self._threads, self._before = tuple(advanced), character
        if best is None or not counts:
            return None
        end, start, i = best
        return StopMatch(self._automata[i].pattern, start, end)

    def _settled(self, automaton: Automaton, threads: Threads, character: str, first: int) -> Threads:
        """The threads, and those that start here, past the assertions that hold before this character."""
        here = dict.fromkeys(automaton.start, first) | threads
        left = list(here)
        while left:
            place = left.pop()
            assertion = None if place == MATCH else automaton.places[place].assertion
            if assertion is None or not assertion.holds(self._before, character):
                continue
            for follower in automaton.places[place].followers:
                if here[place] < here.get(follower, first + 1):
                    here[follower] = here[place]
                    left.append(follower)
        return here


class _Characters:
    """Bytes to characters, each with the bytes [first, last) that it takes up."""

    def __init__(self) -> None:
        self._decoder = _UTF8(errors="replace")
        self.n_bytes = 0

    @property
    def n_waiting(self) -> int:
        """Bytes of a character that is not complete."""
        return len(self._decoder.getstate()[0])

    @property
    def state(self) -> tuple[bytes, int]:
        return self._decoder.getstate()[0], self.n_bytes

    @state.setter
    def state(self, state: tuple[bytes, int]) -> None:
        waiting, self.n_bytes = state
        self._decoder.setstate((waiting, 0))

    def accept(self, data: bytes) -> Iterator[tuple[str, int, int]]:
        first = self.n_bytes - self.n_waiting
        for i in range(len(data)):
            text = self._decoder.decode(data[i : i + 1])
            self.n_bytes += 1
            # A byte that cannot go on what waits ends that as one U+FFFD, and is then looked at itself: it
            # is a character, is none, or waits.
            n_left = self.n_waiting
            for j, character in enumerate(text):
                is_last = j == len(text) - 1
                last = self.n_bytes - n_left if is_last else self.n_bytes - 1
                yield character, first, last
                first = last
