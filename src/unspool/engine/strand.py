"""A text that one model reads."""

from __future__ import annotations

from unspool.kv.prefix_tree import Place
from unspool.kv.table import PageTable
from unspool.light_dataclass import dataclass


@dataclass(slots=True, eq=False, kw_only=True)
class Strand:
    """Tokens, and the pages that hold what was read of them. `engine.commit` alone changes it.

    token_ids    [0, n_cached) have their K and V in the pages of `table` | the rest is still to be fed

    A branch is one, and so is each of its companions (engine/companion.py), which get the tokens that the
    branch gets.
    """

    token_ids: list[int]  # prompt and output
    table: PageTable
    n_cached: int = 0
    n_read: int = 0  # most tokens that were ever in the cache: reading them again is a preemption's cost
    in_tree: Place | None = None  # of its whole pages, those that were read as prompt

    @property
    def has_begun(self) -> bool:
        return len(self.table.pages) > 0

    @property
    def n_to_feed(self) -> int:
        return len(self.token_ids) - self.n_cached

    def fork(self, table: PageTable) -> Strand:
        """A copy that goes its own way, on pages of its own."""
        return Strand(
            token_ids=self.token_ids.copy(), table=table, n_cached=self.n_cached, n_read=self.n_read
        )
