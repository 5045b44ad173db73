"""What a search is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from unspool.types import Move, Processed, Row


class Search(Protocol):
    """Decides how the branches of one request grow. Pure: it returns moves, and `engine.commit` makes them.

    It knows branches by number and never sees pages, text or the rest of the batch. Whether a branch
    that grew has now ended (end of sequence, stop string, length) is not its affair either.
    """

    @property
    def n_first(self) -> int:
        """How many branches start at the end of the prompt: `advance` sees a row for each at first, though
        only branch 0 is there to be forked."""
        ...

    @property
    def max_branches(self) -> int:
        """How many branches may live at once; KV pages are promised for as many."""
        ...

    @property
    def forks_later(self) -> bool:
        """Whether it forks after its first step too: a page for each branch that may be born is then kept
        ready. Where all branches live, some are dropped before others are forked."""
        ...

    @property
    def wants_candidates(self) -> bool:
        """Whether it looks at all survivors of a row, and not only at the token chosen among them."""
        ...

    def advance(self, rows: Sequence[Row], processed: Sequence[Processed]) -> tuple[Move, ...]:
        """Moves for the live branches, given their rows and what the pipeline made of each, in order."""
        ...
