"""The seam between the engine and whatever computes logits."""

from __future__ import annotations

from typing import Final, Protocol

from unspool.types import F32, Plan

RUNNERS: Final = ("native", "reference")  # by the names that users give
DEFAULT_PAGE_SIZE: Final = 32  # tokens


class Runner(Protocol):
    """Computes logits and owns the storage of K and V; it knows pages, never requests or text.

    The engine decides which page belongs to whom; the runner only reads and writes the pages that
    a plan names.
    """

    vocab_size: int  # V
    context_length: int  # longest sequence in tokens
    page_size: int  # tokens a page, a power of two
    n_pages: int  # pages of storage; ids are [0, n_pages)

    def forward(self, plan: Plan) -> F32:
        """Run the plan's rows, write their K and V, return logits (W, V) float32 in plan.logits_rows order.

        A row's logits depend on its own sequence alone, bit for bit: not on the other sequences,
        the chunking of the prompt, or the number of threads.
        """
        ...

    def copy_page(self, source: int, target: int) -> None:
        """Copy K and V of all layers from one page to another (a fork's partial page)."""
        ...

    def close(self) -> None:
        """Free storage and threads; idempotent."""
        ...
