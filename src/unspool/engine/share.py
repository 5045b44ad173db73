"""One branch's part of a step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from unspool.engine.task import Branch, Task
from unspool.kv.layout import pages_for


@dataclass(frozen=True, slots=True)
class Share:
    """The next n_rows tokens of a branch."""

    task: Task
    branch: Branch
    n_rows: int
    is_prompt: bool = False  # or what was read before and has to be read again

    @property
    def wants_logits(self) -> bool:
        """Whether its last row is the last token there is, so that a new one is to be chosen."""
        return self.n_rows == self.branch.n_to_feed

    @property
    def scores_prompt(self) -> bool:
        """Whether each of its rows tells how likely the next token of the prompt is."""
        return self.is_prompt and self.task.scores_prompt

    @property
    def n_logits(self) -> int:
        """How many of its rows, the last ones, logits are needed of."""
        return self.n_rows if self.scores_prompt else int(self.wants_logits)


def n_missing(shares: Iterable[Share], page_size: int) -> int:
    """Pages that the rows of shares need and their branches do not hold, and those that forks may copy."""
    n_pages = 0
    n_copied: dict[int, int] = {}  # by request: which of its branches are forked is not known yet
    for share in shares:
        n_tokens = share.branch.n_cached + share.n_rows
        n_pages += max(pages_for(n_tokens, page_size) - len(share.branch.table.pages), 0)
        if share.wants_logits and n_tokens % page_size:
            n_copied[share.task.request_id] = share.task.n_forks
    return n_pages + sum(n_copied.values())
