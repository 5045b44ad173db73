"""Where the last n tokens of a text have occurred before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

_PRIME: Final = (1 << 61) - 1  # a rolling hash modulo a Mersenne prime (Karp and Rabin 1987)
_BASE: Final = 0x1F3D_5B79_0A68_2C4F


class Occurrences:
    """Every run of n tokens, chained to the one before it with the same hash.

    Constant work and memory per token, whatever n is; a lookup costs what it finds. The index of the prompt
    is frozen and shared by every fork.
    """

    def __init__(self, n: int, prompt_ids: Sequence[int]) -> None:
        assert n >= 1, n
        self._n = n
        self._oldest_weight = pow(_BASE, n, _PRIME)
        self._hashes = [0]  # of token_ids[:i], for every i
        self._earlier = [-1] * n  # for every end of a run: the end before it, -1 for none
        self._prompt_ends: dict[int, int] = {}  # hash of a run to its last end, in the prompt
        self._ends: dict[int, int] = {}  # and after it
        for n_tokens in range(1, len(prompt_ids) + 1):
            self._append(prompt_ids, n_tokens)
        self._n_prompt = len(prompt_ids)
        self._prompt_ends, self._ends = self._ends, {}

    def accept(self, token_ids: Sequence[int]) -> None:
        """token_ids has just grown by one."""
        self._append(token_ids, len(token_ids))

    def undo(self, token_ids: Sequence[int]) -> None:
        """The last of token_ids is about to go."""
        end = len(token_ids)
        if end >= self._n:
            earlier = self._earlier.pop()
            run = self._hash_of_run(end)
            if earlier > self._n_prompt:
                self._ends[run] = earlier
            else:
                del self._ends[run]  # the prompt's end, if there is one, is in force again
        self._hashes.pop()

    def ends(self, token_ids: Sequence[int]) -> Iterator[int]:
        """Positions before which the last n tokens stood, other than now, last first."""
        n, now = self._n, len(token_ids)
        if now < n:
            return
        run = token_ids[now - n :]
        end = self._earlier[now]
        while end >= 0:
            if token_ids[end - n : end] == run:  # equal hashes may be a coincidence
                yield end
            end = self._earlier[end]

    def fork(self) -> Occurrences:
        copy = Occurrences.__new__(Occurrences)
        copy._n, copy._oldest_weight, copy._n_prompt = self._n, self._oldest_weight, self._n_prompt
        copy._prompt_ends = self._prompt_ends
        copy._hashes, copy._earlier, copy._ends = (
            self._hashes.copy(),
            self._earlier.copy(),
            self._ends.copy(),
        )
        return copy

    def _append(self, token_ids: Sequence[int], end: int) -> None:
        self._hashes.append((self._hashes[-1] * _BASE + token_ids[end - 1] + 1) % _PRIME)
        if end >= self._n:
            run = self._hash_of_run(end)
            earlier = self._ends.get(run, -1)
            self._earlier.append(self._prompt_ends.get(run, -1) if earlier < 0 else earlier)
            self._ends[run] = end

    def _hash_of_run(self, end: int) -> int:
        return (self._hashes[end] - self._hashes[end - self._n] * self._oldest_weight) % _PRIME
