"""Whether an answer goes round in circles: its last tokens are one pattern, again and again."""

from __future__ import annotations

import numpy as np

from unspool.types import I32


class LoopDetector:
    """Follows the tokens of one answer. `accept` moves forward, `rollback` undoes, `fork` copies.

    For each length m in [1, max_length] it counts the last tokens that equal the one m before them. The last
    min_count * m tokens are a pattern of m tokens exactly when (min_count - 1) * m in a row do. So a token
    costs one comparison for each length, whatever was written before.
    """

    def __init__(self, min_count: int, max_length: int) -> None:
        """min_count 0 looks for nothing."""
        self._min_count = min_count
        self._lengths = np.arange(1, max_length + 1 if min_count else 1, dtype=np.int64)  # (M,) m
        self._runs = np.zeros(
            len(self._lengths), dtype=np.int64
        )  # (M,) tokens in a row that equal the m-th before
        self._token_ids: I32 = np.zeros(64, dtype=np.int32)  # grows; the first _n_tokens count
        self._n_tokens = 0
        self._ended: list[tuple[I32, I32]] = []  # of each token: the runs that it ended, and their lengths

    def accept(self, token_id: int) -> int | None:
        """Take the next token; how many tokens the shortest pattern has that is complete with it, if any."""
        n_lengths = len(self._lengths)
        if n_lengths == 0:
            return None
        n = self._n_tokens
        # The m-th before, m = 1, 2, ...; there is none for m > n.
        recent = self._token_ids[max(n - n_lengths, 0) : n][::-1]
        equal = np.zeros(n_lengths, dtype=np.bool_)
        np.equal(recent, token_id, out=equal[: len(recent)])
        ended = np.flatnonzero(~equal & (self._runs > 0)).astype(np.int32)
        self._ended.append((ended, self._runs[ended].astype(np.int32)))
        self._runs = (self._runs + 1) * equal
        self._push(token_id)
        complete = np.flatnonzero(self._runs >= (self._min_count - 1) * self._lengths)
        return int(self._lengths[complete[0]]) if len(complete) else None

    def rollback(self, n: int) -> None:
        """Undo the last n tokens."""
        if len(self._lengths) == 0:
            return
        assert n <= self._n_tokens, f"cannot undo {n} of {self._n_tokens} tokens"
        for _ in range(n):
            ended, runs = self._ended.pop()
            self._runs = np.maximum(self._runs - 1, 0)  # those that went on
            self._runs[ended] = runs
        self._n_tokens -= n

    def fork(self) -> LoopDetector:
        copy = LoopDetector.__new__(LoopDetector)
        copy._min_count, copy._lengths = self._min_count, self._lengths
        copy._runs = self._runs  # replaced, or written to by its one owner after that
        copy._token_ids = self._token_ids.copy()
        copy._n_tokens = self._n_tokens
        copy._ended = self._ended.copy()
        return copy

    def _push(self, token_id: int) -> None:
        if self._n_tokens == len(self._token_ids):
            self._token_ids = np.concatenate([self._token_ids, np.zeros_like(self._token_ids)])
        self._token_ids[self._n_tokens] = token_id
        self._n_tokens += 1
