"""What a search is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from unspool.types import F32, Move, Row


class Chooser(Protocol):
    """Picks one token of processed logits (V,) for a row. The engine brings it: searches import no stages."""

    def __call__(self, z: F32, row: Row) -> int: ...


class Search(Protocol):
    """Decides how the branches of one request grow. Pure: it returns moves, and `engine.commit` makes them.

    It knows branches by number and never sees pages, text or the rest of the batch. Whether a branch
    that grew has now ended (end of sequence, stop string, length) is not its affair either.
    """

    @property
    def max_branches(self) -> int:
        """How many branches may live at once; KV pages are promised for as many."""
        ...

    def advance(self, rows: Sequence[Row], logits: Sequence[F32]) -> tuple[Move, ...]:
        """Moves for the live branches, given their rows and each row's processed logits (V,), in order."""
        ...
