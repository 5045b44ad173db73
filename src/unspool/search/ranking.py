"""Continuations of several branches in one order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from unspool.light_dataclass import dataclass
from unspool.types import F64, Candidates, Ids, Processed, Row

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
    """The tokens that may follow a branch, and what each is worth: all of them, or only the likeliest.

    Whoever is left out is worth `floor` at most, and `whole` gives all.
    """

    row: Row
    token_ids: Ids  # (n,) ascending
    logprobs: F64  # (n,)
    rank_values: F64  # (n,) largest first is the order
    floor: float = -np.inf
    whole: Callable[[], Choices] | None = None

    @classmethod
    def of(cls, row: Row, processed: Processed, base: float) -> Choices:
        """Ranked by the log-probability of the whole hypothesis, `base` being that of the branch."""
        assert processed.candidates is not None, "a search that ranks wants candidates"
        return cls._of(row, processed.candidates, base)

    @classmethod
    def _of(cls, row: Row, candidates: Candidates, base: float) -> Choices:
        logprobs = logprobs_of(candidates)
        values = base + logprobs
        if candidates.whole is None:
            return cls(row, candidates.token_ids, logprobs, values)
        all_of_them = candidates.whole
        return cls(
            row,
            candidates.token_ids,
            logprobs,
            values,
            float(values.min()),
            lambda: cls._of(row, all_of_them(), base),
        )

    def ranked(self, change: Callable[[Choices], F64]) -> Choices:
        """The same, ranked by other values (n,), none of which is above what stood there."""
        whole = self.whole
        return replace(
            self,
            rank_values=change(self),
            whole=None if whole is None else lambda: whole().ranked(change),
        )

    def at(self, indices: Ids) -> Choices:
        """Some of those that are here, indices ascending."""
        return replace(
            self,
            token_ids=self.token_ids[indices],
            logprobs=self.logprobs[indices],
            rank_values=self.rank_values[indices],
        )

    def without(self, token_ids: Ids) -> Choices:
        """The same without some tokens."""
        whole, left = self.whole, self.at(np.flatnonzero(~np.isin(self.token_ids, token_ids)))
        return left if whole is None else replace(left, whole=lambda: whole().without(token_ids))

    def has_first(self, n: int) -> bool:
        """Whether the first n in order, with all that are equal to the last of them, are among these."""
        return self.whole is None or int(np.count_nonzero(self.rank_values > self.floor)) >= n


def logprobs_of(candidates: Candidates) -> F64:
    """Log-probabilities (n,) of candidates, among all there are."""
    below = candidates.logits - candidates.logits.max()
    total = candidates.log_total
    result: F64 = below - (np.log(np.exp(below).sum()) if total is None else total)
    return result


def in_order(choices: Sequence[Choices], n_first: int) -> Iterator[Continuation]:
    """All continuations, the largest rank value first; equal ones by branch, then by token id.

    Looks closely at no more than it must: the first n_first, and twice as many whenever those are used up.
    """
    n_told, n_heads = 0, n_first
    known = [*choices]
    while True:
        heads: list[tuple[float, int, int, float]] = []
        for i, one in enumerate(known):
            if not one.has_first(n_heads):
                assert one.whole is not None, "all of them have all"
                one = known[i] = one.whole()
            best = _largest(one.rank_values, n_heads)
            values, ids, logprobs = one.rank_values[best], one.token_ids[best], one.logprobs[best]
            heads += zip((-values).tolist(), [i] * best.size, ids.tolist(), logprobs.tolist(), strict=True)
        heads.sort()
        n_sure = min(n_heads, len(heads))  # the first n_heads of all are among the first n_heads of each
        for value, i, token_id, logprob in heads[n_told:n_sure]:
            yield Continuation(known[i].row, token_id, logprob, -value)
        if len(heads) < n_heads:
            return
        n_told, n_heads = n_sure, n_heads * _MANY


def _largest(values: F64, n: int) -> Ids:
    """Indices of the n largest, and of all that are equal to the n-th."""
    if n >= values.size:
        return np.arange(values.size)
    nth = np.partition(values, values.size - n)[values.size - n]
    return np.flatnonzero(values >= nth)
