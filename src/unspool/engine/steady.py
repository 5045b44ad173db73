"""Steps in which the same branches decode one token each: what stays the same is kept from one to the next.

Most steps are like that, and a forward pass leaves nothing of Python in the processor's caches: what a step
costs beside it is how much code and how many objects it has to fetch again. So who runs is not asked anew
while nobody came or left, the arrays of the plan are written over, and rows are made once. This is the short
way through `Scheduler.plan`, `run_step` and `commit.make_moves`, which are its slow twin.
"""

from __future__ import annotations

from collections.abc import Sequence

from unspool.engine import commit
from unspool.engine.plan import build_plan
from unspool.engine.share import Share
from unspool.engine.storage import Storage
from unspool.errors import UnspoolError
from unspool.logits.standing import StandingRows
from unspool.types import Event


class Steady:
    """Branches of requests that sample, with one token to feed each. Their texts and places in the cache are
    read off them in every step, and pages looked at before they can run out, so a step that raised can be run
    again: it leaves fewer steps sure than are, and never more."""

    def __init__(self, shares: Sequence[Share], storage: Storage, n_vocab: int) -> None:
        self.shares = shares
        self._storage = storage
        self._n_vocab = n_vocab
        self._branches = [share.branch for share in shares]
        rows = [row for share in shares for row in share.task.rows(share.branch)]
        self._rows = StandingRows(rows, storage.runner.sampler)
        self._plan = build_plan(shares)
        self._n_sure = 0  # steps for which all have pages, before that is looked at again
        self.is_over = False  # whether a branch has ended, so that they are others that go on

    @classmethod
    def of(cls, shares: Sequence[Share], storage: Storage, n_vocab: int) -> Steady | None:
        """None when one of them is part of a prompt, is searched for, or asks for more than its tokens."""
        if not all(_is_steady(share) for share in shares):
            return None
        return cls(shares, storage, n_vocab)

    def reserve(self) -> bool:
        """Have pages for the next token of each; False when one of them has ended, or pages are lacking:
        then it is the scheduler who says what runs."""
        if self.is_over:
            return False
        if self._n_sure == 0 and not self._take_pages():
            return False
        self._n_sure -= 1
        self._plan.token_ids[:] = [branch.token_ids[-1] for branch in self._branches]
        self._plan.n_past[:] = [branch.n_cached for branch in self._branches]
        return True

    def _take_pages(self) -> bool:
        """For the next token of each that has no room left; False when there are too few."""
        lacking = [branch for branch in self._branches if branch.n_cached == branch.table.n_tokens]
        if len(lacking) > self._storage.pool.n_available:
            return False
        for branch in lacking:
            branch.table.grow(branch.n_cached + 1)
        if lacking:
            self._plan = build_plan(self.shares)
        self._n_sure = min(branch.table.n_tokens - branch.n_cached for branch in self._branches)
        return True

    def run(self) -> list[Event] | None:
        """`run_step` for these branches, whose pages are there. None, and no branch has changed, where one of
        them has no token to grow by: it is `run_step` that ends those."""
        storage = self._storage
        storage.journal.lap()
        logits = storage.runner.forward(self._plan)  # (B, V) f32
        if self._n_vocab < logits.shape[1]:
            logits = logits[:, : self._n_vocab]
        storage.journal.lap()
        try:
            choices = self._rows.choose(logits)
        except UnspoolError:
            self.is_over = True
            storage.journal.begin_step()  # what this took counts for nothing
            return None
        now = storage.journal.lap()
        events = commit.grow(self.shares, choices, storage, now)
        for event in events:
            if event.finish_reason is not None:
                self.is_over = True
        return events


def _is_steady(share: Share) -> bool:
    request, branch = share.task.request, share.branch
    params = request.params
    return (
        not share.is_prompt
        and branch.n_to_feed == 1
        and request.search is None
        and not share.task.companions
        and params.logprobs is None
        and params.prompt_logprobs is None
        and not params.trace
    )
