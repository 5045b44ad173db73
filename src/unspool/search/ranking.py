"""Continuations of several branches in one order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from unspool.types import F64, Candidates, Ids, Processed, Row

_MANY: Final = 2  # how much the looked-at part grows when it was not enough


@dataclass(frozen=True, slots=True)
class Continuation:
    """A branch and the token that may come next."""

    row: Row
    parent: int  # index among the rows
    token_id: int
    logprob: float  # of the token, among the survivors of its row
    total: float  # what it is ranked by


def logprobs_of(candidates: Candidates) -> F64:
    """log-softmax over the survivors: (n,)."""
    below = candidates.logits - candidates.logits.max()
    result: F64 = below - np.log(np.exp(below).sum())
    return result


def in_order(
    rows: Sequence[Row],
    logprobs: Sequence[F64],
    processed: Sequence[Processed],
    bases: Sequence[float],
    n_first: int,
) -> Iterator[Continuation]:
    """All continuations, the largest base + logprob first; equal ones by branch, then by token id.

    Looks closely at no more than it must: the first n_first, and twice as many whenever those are used up.
    """
    n_told, n_heads = 0, n_first
    while True:
        heads: list[tuple[float, int, int, float]] = []
        for i, (values, one) in enumerate(zip(logprobs, processed, strict=True)):
            assert one.candidates is not None, "a search that ranks wants candidates"
            best = _largest(values, n_heads)
            ids = one.candidates.token_ids[best]
            for value, token_id in zip(values[best].tolist(), ids.tolist(), strict=True):
                heads.append((-(bases[i] + value), i, token_id, value))
        heads.sort()
        n_sure = min(n_heads, len(heads))  # the first n_heads of all are among the first n_heads of each
        for total, i, token_id, logprob in heads[n_told:n_sure]:
            yield Continuation(rows[i], i, token_id, logprob, -total)
        if len(heads) < n_heads:
            return
        n_told, n_heads = n_sure, n_heads * _MANY


def _largest(values: F64, n: int) -> Ids:
    """Indices of the n largest, and of all that are equal to the n-th."""
    if n >= values.size:
        return np.arange(values.size)
    nth = np.partition(values, values.size - n)[values.size - n]
    return np.flatnonzero(values >= nth)
