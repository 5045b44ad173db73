"""Which rows run in a step: decoding rows first, and prompts in chunks beside them.

Every decoding branch gets its row in every step. Prompts share what the step has left, by priority and
then in order of arrival, so that a long prompt slows the others down (`Pace` says how much) but never
stops them. A prompt that begins as one being read just now begins waits for that one's pages.

A request is let in when its tokens so far fit. It may grow until there is no page left: then the request
of the lowest priority that loses least work is put back in the queue, and starts again from its tokens
when there is room. One that was put back `n_preemptions` times comes back only when all it may ever need
can be promised, and is then left alone: so each request is put back a bounded number of times, and some
request always goes on.

Who shares a step, and how a prompt is cut, changes no token: that is the runner's promise.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from dataclasses import replace

from unspool.engine import commit
from unspool.engine.limits import Limits
from unspool.engine.pace import Pace
from unspool.engine.share import Share
from unspool.engine.storage import Storage
from unspool.engine.task import Branch, Phase, Task
from unspool.kv.layout import pages_for


class Scheduler:
    """The queue of requests, and the order in which they run."""

    def __init__(self, storage: Storage, limits: Limits, vocab_size: int) -> None:
        self._storage = storage
        self._limits = limits
        self._n_scored_rows = max(1, limits.logits_bytes // (4 * vocab_size))  # of prompts, a step
        self._pace = Pace(limits.max_slowdown)
        self._waiting: list[Task] = []  # both in the order of Task.rank
        self._running: list[Task] = []

    @property
    def n_waiting(self) -> int:
        return len(self._waiting)

    @property
    def n_running(self) -> int:
        return len(self._running)

    def add(self, task: Task) -> None:
        insort(self._waiting, task, key=lambda t: t.rank)

    def remove(self, task: Task) -> None:
        """Forget a task that is done, wherever it was."""
        (self._running if task in self._running else self._waiting).remove(task)

    def set_priority(self, task: Task, priority: int) -> None:
        """The task takes its place among those of its new priority."""
        queue = self._running if task in self._running else self._waiting
        queue.remove(task)
        task.priority = priority
        insort(queue, task, key=lambda t: t.rank)

    def observe(self, shares: Iterable[Share], seconds: float) -> None:
        """These shares were a step that took so long."""
        n_rows = [0, 0]
        for share in shares:
            n_rows[share.is_prompt] += share.n_rows
        self._pace.observe(n_rows[False], n_rows[True], seconds)

    def plan(self) -> list[Share]:
        """Let in who fits, put back whom there is no page for, and deal out the rows of the next step.

        Empty only when there is nothing to do.
        """
        while True:
            self._admit()
            shares, n_spare = self._decoding()
            shares += self._prompts(len(shares), n_spare)
            if shares or not self._running:
                return shares
            if all(task.phase is Phase.PREFILL for task in self._running):  # or one goes on to decode
                self._preempt(self._victim())  # prompts hold all pages and none of them can be read on

    def _admit(self) -> None:
        while self._waiting:
            task = self._waiting[0]
            if not self._has_room_for(task):
                below = [t for t in self._running if t.priority < task.priority and not self._is_safe(t)]
                if not below:
                    return  # and no one overtakes it
                self._preempt(min(below, key=_cost_of_loss))
                continue
            del self._waiting[0]
            task.move_to(Phase.PREFILL)
            insort(self._running, task, key=lambda t: t.rank)

    def _has_room_for(self, task: Task) -> bool:
        running, limits, pool = self._running, self._limits, self._storage.pool
        n_branches = sum(t.search.max_branches for t in running)
        if len(running) >= limits.n_tasks or n_branches + task.search.max_branches > limits.n_rows:
            return False
        if not running:
            return True  # alone it fits: that was checked when it came
        if self._is_safe(task):
            n_promised = sum(t.n_pages_max for t in running if self._is_safe(t))
            if n_promised + task.n_pages_max > pool.n_pages:
                return False
        spoken_for = sum(self._n_to_begin(t) for t in running if t.phase is Phase.PREFILL)
        n_known = 0
        if task.may_match:
            first = next(iter(task.branches.values()))
            pages = self._storage.match(task, first).pages
            n_known = sum(pool.holders(page) > 0 for page in pages)
        return self._n_to_begin(task) - n_known + spoken_for + n_branches <= pool.n_available

    def _n_to_begin(self, task: Task) -> int:
        """Pages that its tokens so far, and one more, still need."""
        page_size = self._storage.page_size
        return sum(
            max(pages_for(len(b.token_ids) + 1, page_size) - len(b.table.pages), 0)
            for b in task.branches.values()
        )

    def _decoding(self) -> tuple[list[Share], int]:
        """A row for every decoding branch, after making room for them when need be, and the pages left."""
        while True:
            shares = [
                Share(task, branch, 1)
                for task in self._running
                if task.phase is Phase.DECODE
                for branch in task.branches.values()
            ]
            n_spare = self._storage.pool.n_available - sum(map(self._missing, shares))
            if n_spare >= 0:
                return shares, n_spare
            self._preempt(self._victim())

    def _prompts(self, n_decoding: int, n_spare: int) -> list[Share]:
        """Rows for prompts, with n_spare pages to take."""
        shares: list[Share] = []
        n_left = self._pace.n_prompt_rows(n_decoding, self._limits.n_rows - n_decoding)
        n_scored_left = self._n_scored_rows
        being_read: list[tuple[Task, Branch]] = []
        for task in [t for t in self._running if t.phase is Phase.PREFILL]:
            for branch in task.branches.values():
                if n_left <= 0:
                    return shares
                if not branch.has_begun and task.may_match:
                    if any(self._is_behind(branch, task, other) for other in being_read):
                        continue
                    n_spare -= commit.adopt(task, branch, self._storage, n_spare)
                n_rows = min(n_left, branch.n_to_feed - task.has_output, self._room(branch, n_spare))
                share = Share(task, branch, n_rows, is_prompt=True)
                if self._missing(share) > n_spare:  # the forks do not fit: the last token waits
                    share = replace(share, n_rows=n_rows - 1)
                if share.scores_prompt:
                    share = replace(share, n_rows=min(share.n_rows, n_scored_left))
                    n_scored_left -= share.n_rows
                being_read.append((task, branch))
                if share.n_rows > 0:
                    shares.append(share)
                    n_left -= share.n_rows
                    n_spare -= self._missing(share)
            commit.resume(task)
        return shares

    def _is_behind(self, branch: Branch, task: Task, leader: tuple[Task, Branch]) -> bool:
        """Whether the next page of this text is one that the other, which is being read, will have first."""
        other_task, other = leader
        if other_task.salt != task.salt:
            return False
        page_size = self._storage.page_size
        n_known = self._storage.match(task, branch).n_tokens
        n = n_known - n_known % page_size + page_size
        return n < len(branch.token_ids) and branch.token_ids[:n] == other.token_ids[:n]

    def _missing(self, share: Share) -> int:
        """Pages that the rows of a share need and its branch does not hold, and those of its forks."""
        n_tokens, page_size = share.branch.n_cached + share.n_rows, self._storage.page_size
        n_forks = 0 if share.task.has_output or not share.wants_logits else share.task.search.n_first - 1
        n_copied = n_forks if n_tokens % page_size else 0
        return max(pages_for(n_tokens, page_size) - len(share.branch.table.pages), 0) + n_copied

    def _room(self, branch: Branch, n_spare: int) -> int:
        """Rows that fit in the pages that a branch holds and in n_spare more."""
        return (len(branch.table.pages) + n_spare) * self._storage.page_size - branch.n_cached

    def _is_safe(self, task: Task) -> bool:
        return task.n_preempted >= self._limits.n_preemptions

    def _victim(self) -> Task:
        return min((task for task in self._running if not self._is_safe(task)), key=_cost_of_loss)

    def _preempt(self, task: Task) -> None:
        self._running.remove(task)
        commit.preempt(task, self._storage)
        self.add(task)


def _cost_of_loss(task: Task) -> tuple[int, int]:
    """Who is put back first: the lowest priority, and then who has least to read again."""
    return task.priority, sum(branch.n_cached for branch in task.branches.values())
