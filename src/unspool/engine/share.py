"""One strand's part of a step."""

from __future__ import annotations

from collections.abc import Iterable

from unspool.engine.strand import Strand
from unspool.engine.task import Branch, Task
from unspool.kv.layout import pages_for
from unspool.light_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """The next n_rows tokens of a branch, or of one of its companions."""

    task: Task
    branch: Branch
    n_rows: int
    is_prompt: bool = False  # or what was read before and has to be read again
    companion: int | None = None  # which of them

    @property
    def strand(self) -> Strand:
        return self.branch if self.companion is None else self.branch.companions[self.companion]

    @property
    def model(self) -> int:
        """Which of the engine's models reads it."""
        return self.task.model_of(self.companion)

    @property
    def wants_logits(self) -> bool:
        """Whether its last row is the last token there is, so that its logits are about a new one."""
        return self.n_rows == self.strand.n_to_feed

    @property
    def scores_prompt(self) -> bool:
        """Whether each of its rows tells how likely the next token of the prompt is."""
        return self.is_prompt and self.task.scores_prompt and self.companion is None

    @property
    def n_logits(self) -> int:
        """How many of its rows, the last ones, logits are needed of."""
        return self.n_rows if self.scores_prompt else int(self.wants_logits)


def decoding(task: Task, branch: Branch) -> list[Share]:
    """Of a branch that has its last token to feed, and of its companions."""
    shares = [Share(task, branch, branch.n_to_feed, is_prompt=not task.has_output)]
    for i, strand in enumerate(branch.companions):
        shares.append(Share(task, branch, strand.n_to_feed, not task.has_output, i))
    return shares


def n_missing(shares: Iterable[Share], page_size: int) -> int:
    """Pages that the rows of shares need and their branches do not hold, and those that forks may copy."""
    n_pages = 0
    # By request and companion: which of its branches are forked is not known yet.
    n_copied: dict[tuple[int, int | None], int] = {}
    for share in shares:
        strand = share.strand
        n_tokens = strand.n_cached + share.n_rows
        n_pages += max(pages_for(n_tokens, page_size) - len(strand.table.pages), 0)
        if share.wants_logits and n_tokens % page_size:
            n_copied[share.task.request_id, share.companion] = share.task.n_forks
    return n_pages + sum(n_copied.values())
