"""Continuations of several branches in one order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from unspool.types import F64, Ids, Processed, Row

_MANY: Final = 2  # how much the looked-at part grows when it was not enough


@dataclass(frozen=True, slots=True)
class Continuation:
    """A branch and the token that may come next."""

    row: Row
    token_id: int
    logprob: float  # of the token, among the survivors of its row
    rank_value: float  # what it is ranked by


@dataclass(frozen=True, slots=True)
class Choices:
    """The tokens that may follow a branch, and what each is worth."""

    row: Row
    token_ids: Ids  # (n,) ascending
    logprobs: F64  # (n,)
    rank_values: F64  # (n,) largest first is the order

    @classmethod
    def of(cls, row: Row, processed: Processed, base: float) -> Choices:
        """Ranked by the log-probability of the whole hypothesis, `base` being that of the branch."""
        candidates = processed.candidates
        assert candidates is not None, "a search that ranks wants candidates"
        logprobs = log_softmax(candidates.logits)
        return cls(row, candidates.token_ids, logprobs, base + logprobs)


def log_softmax(logits: F64) -> F64:
    """(n,) from (n,)."""
    below = logits - logits.max()
    result: F64 = below - np.log(np.exp(below).sum())
    return result


def in_order(choices: Sequence[Choices], n_first: int) -> Iterator[Continuation]:
    """All continuations, the largest rank value first; equal ones by branch, then by token id.

    Looks closely at no more than it must: the first n_first, and twice as many whenever those are used up.
    """
    n_told, n_heads = 0, n_first
    while True:
        heads: list[tuple[float, int, int, float]] = []
        for i, one in enumerate(choices):
            best = _largest(one.rank_values, n_heads)
            values, ids, logprobs = one.rank_values[best], one.token_ids[best], one.logprobs[best]
            heads += zip((-values).tolist(), [i] * best.size, ids.tolist(), logprobs.tolist(), strict=True)
        heads.sort()
        n_sure = min(n_heads, len(heads))  # the first n_heads of all are among the first n_heads of each
        for value, i, token_id, logprob in heads[n_told:n_sure]:
            yield Continuation(choices[i].row, token_id, logprob, -value)
        if len(heads) < n_heads:
            return
        n_told, n_heads = n_sure, n_heads * _MANY


def _largest(values: F64, n: int) -> Ids:
    """Indices of the n largest, and of all that are equal to the n-th."""
    if n >= values.size:
        return np.arange(values.size)
    nth = np.partition(values, values.size - n)[values.size - n]
    return np.flatnonzero(values >= nth)
