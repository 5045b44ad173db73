"""What the requests of an engine share: the runners' pages, who holds them, what is known of them, and what
has been counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

from unspool.engine.journal import Journal
from unspool.engine.strand import Strand
from unspool.engine.task import Task
from unspool.kv.pool import PagePool
from unspool.kv.prefix_tree import Match, PrefixTree
from unspool.light_dataclass import dataclass
from unspool.runners.base import Runner


@dataclass(frozen=True, slots=True)
class Storage:
    """One for an engine. `commit` alone changes what is in it."""

    runners: tuple[Runner, ...]  # of the model, and of the second one where there is one
    pool: PagePool
    tree: PrefixTree
    journal: Journal

    @classmethod
    def of(
        cls, runner: Runner, clock: Callable[[], float] = perf_counter, others: Sequence[Runner] = ()
    ) -> Storage:
        """All runners have as many pages. A page is one that any of them may write, and only one does while
        it is held: so there is one pool, one count, and one order in which pages are given up."""
        pool = PagePool(runner.n_pages)
        return cls((runner, *others), pool, PrefixTree(pool, runner.page_size), Journal(clock))

    @property
    def runner(self) -> Runner:
        """Of the model that writes."""
        return self.runners[0]

    @property
    def page_size(self) -> int:
        return self.runner.page_size

    def match(self, task: Task, strand: Strand, companion: int | None = None) -> Match:
        """What is known of a strand's text but its last token, whose logits are wanted."""
        owner = task.owner_of(companion)
        return self.tree.match(strand.token_ids, len(strand.token_ids) - 1, owner)
