"""Where keys and values are: the runner's pages, who holds them, and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass

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

    @classmethod
    def of(cls, runner: Runner) -> Storage:
        pool = PagePool(runner.n_pages)
        return cls(runner, pool, PrefixTree(pool, runner.page_size))

    @property
    def page_size(self) -> int:
        return self.runner.page_size

    def match(self, task: Task, branch: Branch) -> Match:
        """What is known of a branch's text but its last token, whose logits are wanted."""
        return self.tree.match(branch.token_ids, len(branch.token_ids) - 1, task.salt)
