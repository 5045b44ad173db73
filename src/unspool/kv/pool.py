"""The pages of the cache: which are free, and how many tables hold each of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from unspool.errors import CapacityError
from unspool.types import I32


class PagePool:
    """Page ids [0, n_pages), free or held. A page shared by several branches is counted once for each.

    free + live = n_pages, always. Freed pages are used again last in, first out: they are warm.
    """

    def __init__(self, n_pages: int) -> None:
        if n_pages < 1:
            raise CapacityError(f"the KV cache needs at least 1 page, got {n_pages}; give more kv_tokens")
        self.n_pages = n_pages
        self._free = list(range(n_pages - 1, -1, -1))  # taken from the end: 0 goes first
        self._holders: I32 = np.zeros(n_pages, dtype=np.int32)  # (n_pages,) tables that hold each page

    @property
    def n_free(self) -> int:
        return len(self._free)

    @property
    def n_live(self) -> int:
        return self.n_pages - len(self._free)

    def holders(self, page: int) -> int:
        """How many tables hold the page."""
        return int(self._holders[page])

    def take(self, n: int) -> list[int]:
        """n free pages, each with one holder; all of them or CapacityError."""
        if n > len(self._free):
            raise CapacityError(
                f"{n} KV pages are needed and {len(self._free)} of {self.n_pages} are free; "
                "give more kv_tokens, or run fewer requests at once"
            )
        if n == 0:
            return []
        pages = self._free[: -n - 1 : -1]
        del self._free[-n:]
        self._holders[pages] = 1
        return pages

    def share(self, pages: Iterable[int]) -> None:
        """One more table holds each of these live pages."""
        for page in pages:
            assert self._holders[page] > 0, f"page {page} is free and cannot be shared"
            self._holders[page] += 1

    def release(self, pages: Iterable[int]) -> None:
        """One table fewer holds each of these pages; those that no one holds are free again."""
        for page in pages:
            assert self._holders[page] > 0, f"page {page} is released once too often"
            self._holders[page] -= 1
            if self._holders[page] == 0:
                self._free.append(page)

    def check(self, tables: Iterable[Iterable[int]]) -> None:
        """Assert that as many tables hold each page as the pool believes, and that the rest are free."""
        held = Counter(page for table in tables for page in table)
        for page in range(self.n_pages):
            assert self._holders[page] == held[page], (
                f"page {page} is counted {self._holders[page]} times and held {held[page]} times"
            )
        free = set(self._free)
        assert len(free) == len(self._free), "a page is free twice"
        assert free == {page for page in range(self.n_pages) if held[page] == 0}, (
            "free and held pages overlap"
        )
