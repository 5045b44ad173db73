"""Which rows run in a step: decoding rows first, and prompts in chunks beside them.

Every decoding branch gets its row in every step. Prompts share what the step has left (`prompts` says
how), so that a long prompt slows the others down (`Pace` says how much) but never stops them.

A request is let in when its tokens so far fit. It may grow until there is no page left: then the request
of the lowest priority that loses least work is put back in the queue, and starts again from its tokens
when there is room. One that was put back `n_preemptions` times comes back only when all it may ever need
can be promised, and is then left alone: so each request is put back a bounded number of times, and some
request always goes on.

    promise   requests that are safe need at most n_pages_max pages each, and all of these together are
              no more than there are, unless only one is safe: it fits alone, which was checked when it came
    progress  whoever is not safe can be put back, so what is safe finds its pages

Who shares a step, and how a prompt is cut, changes no token: that is the runner's promise. A step looks at
the requests that run and at the first that waits, not at the queue.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Sequence

from unspool.engine import holding
from unspool.engine.limits import Limits
from unspool.engine.pace import Chunk, Pace
from unspool.engine.prompts import Dealer
from unspool.engine.share import Share, decoding, n_missing
from unspool.engine.storage import Storage
from unspool.engine.task import Phase, Task
from unspool.kv.layout import pages_for


class Scheduler:
    """The queue of requests, and the order in which they run."""

    def __init__(self, storage: Storage, limits: Limits, vocab_size: int) -> None:
        self._storage = storage
        self.limits = limits
        self._n_scored_rows = max(1, limits.logits_bytes // (4 * vocab_size))  # of prompts, a step
        self._pace = Pace(limits.max_slowdown)
        self._chunk = Chunk()  # of the step planned last
        self.n_changes = 0  # of the queues: who comes, leaves, or stands elsewhere
        self._waiting: list[Task] = []  # both in the order of Task.rank
        self._running: list[Task] = []

    @property
    def n_waiting(self) -> int:
        return len(self._waiting)

    @property
    def n_running(self) -> int:
        return len(self._running)

    def add(self, task: Task) -> None:
        self._put_into(self._waiting, task)

    def remove(self, task: Task) -> None:
        """Forget a task that is done, wherever it was."""
        if not task.is_paused:
            self._take_out(task)

    def set_priority(self, task: Task, priority: int) -> None:
        """The task takes its place among those of its new priority."""
        if task.is_paused:
            task.priority = priority
            return
        queue = self._take_out(task)
        task.priority = priority
        self._put_into(queue, task)

    def pause(self, task: Task) -> None:
        """Take a task out of the queues. Its pages stay in the prefix tree until others need them."""
        self._take_out(task)
        if task.phase is not Phase.WAITING:
            holding.put_back(task, self._storage)
        task.is_paused = True

    def resume(self, task: Task) -> None:
        """A paused task waits for its turn again."""
        task.is_paused = False
        self.add(task)

    def observe(self, n_decoding: int, seconds: float) -> None:
        """The step that was planned last, with so many rows that decode, took so long."""
        self._pace.observe(n_decoding, self._chunk, seconds)

    def plan(self) -> list[Share]:
        """Let in who fits, put back whom there is no page for, and deal out the rows of the next step.

        Empty only when there is nothing to do.
        """
        while True:
            self._admit()
            shares, n_spare = self._decoding()
            self._chunk = Chunk()
            reading = [task for task in self._running if task.phase is Phase.PREFILL]
            if reading:
                n_decoding = sum(share.n_rows for share in shares)
                position = max(b.n_cached for task in reading for b in task.branches.values())
                n_rows = self._pace.n_prompt_rows(n_decoding, self.limits.n_rows - n_decoding, position)
                dealt = Dealer(self._storage, n_rows, self._n_scored_rows, n_spare).deal(reading)
                for share in dealt:
                    self._chunk += Chunk.at(share.branch.n_cached, share.n_rows)
                shares += dealt
            if shares or not self._running:
                assert shares or not self._waiting, "requests wait and none can begin"
                return shares
            if all(task.phase is Phase.PREFILL for task in self._running):  # or one goes on to decode
                self._preempt(self._victim())  # prompts hold all pages and none of them can be read on

    def has_all(self, shares: Sequence[Share]) -> bool:
        """Whether every branch that runs has its share among these; one that found all its text read again
        waits for the next step."""
        return sum(len(task.branches) for task in self._running) == len(shares)

    def _put_into(self, queue: list[Task], task: Task) -> None:
        self.n_changes += 1
        insort(queue, task, key=_rank)

    def _take_out(self, task: Task) -> list[Task]:
        """Out of its queue, which is returned."""
        for queue in (self._running, self._waiting):
            at = bisect_left(queue, task.rank, key=_rank)
            if at < len(queue) and queue[at] is task:
                del queue[at]
                self.n_changes += 1
                return queue
        raise AssertionError(f"request {task.request_id} is in no queue")

    def _admit(self) -> None:
        """Let in the first that waits, again and again; no one overtakes it. Where it has no room, those of
        lower priority are put back, if that makes room."""
        while self._waiting:
            task = self._waiting[0]
            n_available = self._storage.pool.n_available
            if not self._has_room_for(task, self._running, n_available):
                below = [t for t in self._running if t.priority < task.priority and not self._is_safe(t)]
                others = [t for t in self._running if t not in below]
                if not below or not self._has_room_for(task, others, n_available + self._n_held_by(below)):
                    return
                self._preempt(min(below, key=_cost_of_loss))
                continue
            del self._waiting[0]
            task.move_to(Phase.PREFILL)
            self._put_into(self._running, task)

    def _has_room_for(self, task: Task, running: Sequence[Task], n_available: int) -> bool:
        """Whether a task can start beside those that run, with n_available pages for it and them to take."""
        limits, pool = self.limits, self._storage.pool
        n_rows = sum(t.n_rows_max for t in running)
        if len(running) >= limits.n_tasks or n_rows + task.n_rows_max > limits.n_rows:
            return False
        if not running:
            return True  # alone it fits: that was checked when it came
        if self._is_safe(task):
            n_promised = sum(t.n_pages_max for t in running if self._is_safe(t))
            if n_promised + task.n_pages_max > pool.n_pages:
                return False
        spoken_for = sum(self._n_to_begin(t) for t in running if t.phase is Phase.PREFILL)
        n_lacking = self._n_to_begin(task) + spoken_for + n_rows - n_available
        first = next(iter(task.branches.values()))
        if n_lacking <= 0:
            return True
        if not task.may_match or n_lacking > pages_for(len(first.token_ids), self._storage.page_size):
            return False
        pages = self._storage.match(task, first).pages
        return n_lacking <= sum(pool.holders(page) > 0 for page in pages)

    def _n_to_begin(self, task: Task) -> int:
        """Pages that its tokens so far, one more for each strand, and its first forks still need. Branches
        that were put back find their prompt with the first of them."""
        page_size = self._storage.page_size
        n_pages = 0 if task.has_output else task.n_forks * (1 + len(task.companions))
        for n_before, branch in enumerate(task.branches.values()):
            n_new = len(branch.token_ids) - task.n_prompt
            for strand in branch.strands:
                n_prompt = len(strand.token_ids) - n_new
                n_shared = n_prompt // page_size if n_before and not strand.has_begun else 0
                n_held = len(strand.table.pages)
                n_pages += max(pages_for(len(strand.token_ids) + 1, page_size) - n_shared - n_held, 0)
        return n_pages

    def _n_held_by(self, tasks: Iterable[Task]) -> int:
        """Pages that no one else holds."""
        held = Counter(
            page
            for task in tasks
            for branch in task.branches.values()
            for strand in branch.strands
            for page in strand.table.pages.tolist()
        )
        return sum(self._storage.pool.holders(page) == n for page, n in held.items())

    def _decoding(self) -> tuple[list[Share], int]:
        """Rows for every decoding branch, after making room for them when need be, and the pages left."""
        while True:
            shares = [
                share
                for task in self._running
                if task.phase is Phase.DECODE
                for branch in task.branches.values()
                for share in decoding(task, branch)
            ]
            n_spare = self._storage.pool.n_available - n_missing(shares, self._storage.page_size)
            if n_spare >= 0:
                return shares, n_spare
            self._preempt(self._victim())

    def _is_safe(self, task: Task) -> bool:
        return task.n_preempted >= self.limits.n_preemptions

    def _victim(self) -> Task:
        able = [task for task in self._running if not self._is_safe(task)]
        assert able, "pages that were promised are not there"
        return min(able, key=_cost_of_loss)

    def _preempt(self, task: Task) -> None:
        self._take_out(task)
        holding.preempt(task, self._storage)
        self.add(task)


def _rank(task: Task) -> tuple[int, int]:
    return task.rank


def _cost_of_loss(task: Task) -> tuple[int, int]:
    """Who is put back first: the lowest priority, and then who has least to read again."""
    return task.priority, task.n_tokens_cached
