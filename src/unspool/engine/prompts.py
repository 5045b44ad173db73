"""Which prompts are read in a step, and how much of each.

Higher priorities come first. Among equals the first in order of arrival gets half of the rows, so that it
moves on whatever else comes, and the others share what is left, the shortest first: a short prompt does
not wait until a long one before it has been read. A prompt that begins as one being read just now begins
waits for that one's pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from unspool.engine import holding
from unspool.engine.share import Share, n_missing
from unspool.engine.storage import Storage
from unspool.engine.task import Task


class Dealer:
    """Deals out the rows of one step: n_rows at most, of which n_scored_rows have their logits looked at,
    with n_spare pages to take."""

    def __init__(self, storage: Storage, n_rows: int, n_scored_rows: int, n_spare: int) -> None:
        self._storage = storage
        self._n_rows = n_rows
        self._n_scored_rows = n_scored_rows
        self._n_spare = n_spare
        self._being_read: list[Share] = []  # of no rows, for who and what it is

    def deal(self, tasks: Sequence[Task]) -> list[Share]:
        """The shares of tasks that read, given in the order of Task.rank."""
        shares: list[Share] = []
        for _, equals in groupby(tasks, key=lambda task: task.priority):
            parts = [
                Share(task, branch, 0, is_prompt=True, companion=companion)
                for task in equals
                for branch in task.branches.values()
                for companion in (None, *range(len(task.companions)))
            ]
            self._being_read += [part for part in parts if part.strand.has_begun]
            shares += self._deal_to_equals([part for part in parts if _n_left(part) > 0])
            if self._n_rows <= 0:
                break
        for task in tasks:
            holding.resume(task)
        return sorted(shares, key=lambda share: share.task.rank)  # a task's branches stand side by side

    def _deal_to_equals(self, parts: Sequence[Share]) -> list[Share]:
        shares: list[Share] = []
        others = list(parts)
        while others and not shares:  # who waits for another's pages leaves its turn to the next
            part = others.pop(0)
            shares = self._read(part, -(-self._n_rows // 2) if others else self._n_rows)
        for part in sorted(others, key=_n_left):
            shares += self._read(part, self._n_rows)
        if shares and self._n_rows > 0:
            shares[0] = self._extended(shares[0])
        return shares

    def _read(self, part: Share, n_most: int) -> list[Share]:
        """At most n_most rows for a strand, or nothing."""
        if n_most <= 0:
            return []
        if not part.strand.has_begun:
            if part.task.may_match:
                match = self._storage.match(part.task, part.strand, part.companion)
                if self._is_behind(part, match.n_tokens):
                    return []
                self._n_spare -= holding.adopt(part, match, self._storage, self._n_spare)
            self._being_read.append(part)
        share = self._fitting(part, n_most)
        self._take(share, 1)
        return [share] if share.n_rows > 0 else []

    def _extended(self, share: Share) -> Share:
        """A share with the rows that no one else wanted."""
        self._take(share, -1)
        share = self._fitting(share, self._n_rows)
        self._take(share, 1)
        return share

    def _fitting(self, part: Share, n_most: int) -> Share:
        page_size = self._storage.page_size
        n_room = (len(part.strand.table.pages) + self._n_spare) * page_size - part.strand.n_cached
        n_rows = min(n_most, _n_left(part), n_room)
        if part.scores_prompt:
            n_rows = min(n_rows, self._n_scored_rows)
        share = replace(part, n_rows=n_rows)
        if n_missing([share], page_size) > self._n_spare:  # the forks do not fit: the last token waits
            share = replace(share, n_rows=n_rows - 1)
        return share

    def _take(self, share: Share, sign: int) -> None:
        self._n_rows -= sign * share.n_rows
        self._n_spare -= sign * n_missing([share], self._storage.page_size)
        self._n_scored_rows -= sign * share.n_rows * share.scores_prompt

    def _is_behind(self, part: Share, n_known: int) -> bool:
        """Whether the next page of this text is one that another, which is being read, will have first."""
        page_size = self._storage.page_size
        first = n_known - n_known % page_size
        end = first + page_size
        token_ids, owner = part.strand.token_ids, part.task.owner_of(part.companion)
        if end >= len(token_ids):
            return False
        for other in self._being_read:
            ids = other.strand.token_ids
            if (
                other.strand.n_cached < end <= len(ids) - other.task.leaves_last
                and other.task.owner_of(other.companion) == owner
                and ids[first:end] == token_ids[first:end]
                and ids[:first] == token_ids[:first]
            ):
                return True
        return False


def _n_left(part: Share) -> int:
    """Tokens still to be read; one is left where all strands are to be fed their last in one step."""
    return part.strand.n_to_feed - part.task.leaves_last
