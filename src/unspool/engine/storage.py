"""What the requests of an engine share: the runner's pages, who holds them, what is known of them, and what
has been counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from unspool.engine.journal import Journal
from unspool.engine.task import Branch, Task
from unspool.kv.pool import PagePool
from unspool.kv.prefix_tree import Match, PrefixTree
from unspool.runners.base import Runner


@dataclass(frozen=True, slots=True)
class Storage:
    """One for an engine. `commit` alone changes what is in it."""

    runner: Runner
    pool: PagePool
    tree: PrefixTree
    journal: Journal

    @classmethod
    def of(cls, runner: Runner, clock: Callable[[], float] = perf_counter) -> Storage:
        pool = PagePool(runner.n_pages)
        return cls(runner, pool, PrefixTree(pool, runner.page_size), Journal(clock))

    @property
    def page_size(self) -> int:
        return self.runner.page_size

    def match(self, task: Task, branch: Branch) -> Match:
        """What is known of a branch's text but its last token, whose logits are wanted."""
        return self.tree.match(branch.token_ids, len(branch.token_ids) - 1, task.salt)
