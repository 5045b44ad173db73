"""Which rows run in a step: first come, first served, prompts in chunks beside decoding rows.

Every decoding branch gets its row in every step; prompts share what the step has left, in order of
arrival, so that a long prompt slows the others down but never stops them. A request is let in when
the pages it may come to hold are not promised to others, so nothing that was let in is ever thrown out.
Who shares a step, and how a prompt is cut, changes no token: that is the runner's promise.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from unspool.engine.task import Branch, Phase, Task
from unspool.errors import BadRequest


@dataclass(frozen=True, slots=True)
class Limits:
    """How much runs at once."""

    n_rows: int = 512  # rows a step: decoding branches and prompt tokens
    n_tasks: int = 64  # requests let in at once
    logits_bytes: int = 32 << 20  # a step: logits of prompts whose log-probabilities are asked for

    def __post_init__(self) -> None:
        if {type(self.n_rows), type(self.n_tasks)} != {int} or not 1 <= self.n_tasks <= self.n_rows:
            raise BadRequest(
                f"n_tasks must be a whole number in [1, n_rows], got n_tasks={self.n_tasks} and "
                f"n_rows={self.n_rows}; each request needs a row of the step",
                code="bad_limits",
            )
        if type(self.logits_bytes) is not int or self.logits_bytes < 1:
            raise BadRequest(
                f"logits_bytes must be a whole number, at least 1, got {self.logits_bytes!r}; "
                "a row is read even where there is room for less",
                code="bad_limits",
            )


@dataclass(frozen=True, slots=True)
class Share:
    """One branch's part of a step: its next n_rows tokens."""

    task: Task
    branch: Branch
    n_rows: int

    @property
    def wants_logits(self) -> bool:
        """Whether its last row is the last token there is, so that a new one is to be chosen."""
        return self.n_rows == self.branch.n_to_feed

    @property
    def scores_prompt(self) -> bool:
        """Whether each of its rows tells how likely the next token of the prompt is."""
        return self.task.phase is Phase.PREFILL and self.task.request.params.prompt_logprobs is not None

    @property
    def n_logits(self) -> int:
        """How many of its rows, the last ones, logits are needed of."""
        return self.n_rows if self.scores_prompt else int(self.wants_logits)


class Scheduler:
    """The queue of requests, and the order in which they run."""

    def __init__(self, n_pages: int, limits: Limits, vocab_size: int) -> None:
        self._n_pages = n_pages
        self._limits = limits
        self._n_scored_rows = max(1, limits.logits_bytes // (4 * vocab_size))  # of prompts, a step
        self._waiting: deque[Task] = deque()
        self._running: list[Task] = []
        self._n_promised = 0  # pages that the running tasks may come to hold

    @property
    def n_promised(self) -> int:
        return self._n_promised

    def add(self, task: Task) -> None:
        self._waiting.append(task)

    def remove(self, task: Task) -> None:
        """Forget a task that is done, wherever it was."""
        if task in self._running:
            self._running.remove(task)
            self._n_promised -= task.n_pages_max
        else:
            self._waiting.remove(task)

    def plan(self) -> list[Share]:
        """Let in who fits, and deal out the rows of the next step; empty when there is nothing to do."""
        self._admit()
        shares = [
            Share(task, branch, branch.n_to_feed)
            for task in self._running
            if task.phase is Phase.DECODE
            for branch in task.branches.values()
        ]
        n_left = self._limits.n_rows - len(shares)
        n_scored_left = self._n_scored_rows
        for task in self._running:
            if n_left <= 0:
                break
            if task.phase is Phase.PREFILL:
                (branch,) = task.branches.values()
                share = Share(task, branch, min(n_left, branch.n_to_feed))
                if share.scores_prompt:
                    share = replace(share, n_rows=min(share.n_rows, n_scored_left))
                    n_scored_left -= share.n_rows
                if share.n_rows:
                    shares.append(share)
                    n_left -= share.n_rows
        return shares

    def _admit(self) -> None:
        while self._waiting and len(self._running) < self._limits.n_tasks:
            task = self._waiting[0]
            if self._n_promised + task.n_pages_max > self._n_pages:
                break  # and no one overtakes it
            self._waiting.popleft()
            self._n_promised += task.n_pages_max
            task.move_to(Phase.PREFILL)
            self._running.append(task)
