"""The pages of the cache: free, live in some branch's table, or kept for whoever asks for them again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from unspool.errors import CapacityError, named
from unspool.types import I32


class PagePool:
    """Page ids [0, n_pages). A page shared by several tables is counted once for each.

        free     no one holds or keeps it
        live     at least one table holds it; whether it is kept does not matter
        cached   no table holds it, and the prefix tree keeps it

    free + cached + live = n_pages, always. Cached pages are as good as free: `take` has them given back
    when it must. Freed pages are used again last in, first out: they are warm.
    """

    def __init__(self, n_pages: int) -> None:
        if n_pages < 1:
            raise CapacityError(
                f"the KV cache needs at least 1 page, got {n_pages}; give more {named('kv_tokens')}"
            )
        self.n_pages = n_pages
        self._free = list(range(n_pages - 1, -1, -1))  # taken from the end: 0 goes first
        self._holders: I32 = np.zeros(n_pages, dtype=np.int32)  # (n_pages,) tables that hold each page
        self._is_kept: npt.NDArray[np.bool_] = np.zeros(n_pages, dtype=np.bool_)  # (n_pages,)
        self._n_cached = 0
        self._reclaim: Callable[[int], None] | None = None

    @property
    def n_free(self) -> int:
        return len(self._free)

    @property
    def n_cached(self) -> int:
        return self._n_cached

    @property
    def n_live(self) -> int:
        return self.n_pages - len(self._free) - self._n_cached

    @property
    def n_available(self) -> int:
        """How many pages `take` can give."""
        return len(self._free) + self._n_cached

    def holders(self, page: int) -> int:
        """How many tables hold the page."""
        return int(self._holders[page])

    def reclaim_with(self, reclaim: Callable[[int], None]) -> None:
        """Call this for n pages when `take` lacks them; it drops as many cached pages, if there are."""
        self._reclaim = reclaim

    def take(self, n: int) -> list[int]:
        """n pages, each with one holder; all of them or CapacityError."""
        if n > self.n_available:
            raise CapacityError(
                f"{n} KV pages are needed and {self.n_available} of {self.n_pages} are free; "
                f"give more {named('kv_tokens')}, or run fewer requests at once"
            )
        if n == 0:
            return []
        if n > len(self._free):
            assert self._reclaim is not None, "pages are kept and no one can drop them"
            self._reclaim(n - len(self._free))
        pages = self._free[: -n - 1 : -1]
        assert len(pages) == n, f"{n} pages were available and {len(pages)} came"
        del self._free[-n:]
        self._holders[pages] = 1
        return pages

    def share(self, pages: Iterable[int]) -> None:
        """One more table holds each of these pages, live or cached."""
        for page in pages:
            if self._holders[page] == 0:
                assert self._is_kept[page], f"page {page} is free and cannot be shared"
                self._n_cached -= 1
            self._holders[page] += 1

    def release(self, pages: Iterable[int]) -> None:
        """One table fewer holds each of these pages; those that no one holds or keeps are free again."""
        for page in pages:
            assert self._holders[page] > 0, f"page {page} is released once too often"
            self._holders[page] -= 1
            if self._holders[page] == 0:
                if self._is_kept[page]:
                    self._n_cached += 1
                else:
                    self._free.append(page)

    def keep(self, page: int) -> None:
        """The prefix tree keeps a live page from now on."""
        assert self._holders[page] > 0, f"page {page} is not live and cannot be kept"
        assert not self._is_kept[page], f"page {page} is kept twice"
        self._is_kept[page] = True

    def drop(self, page: int) -> None:
        """The prefix tree keeps the page no longer."""
        assert self._is_kept[page], f"page {page} is not kept"
        self._is_kept[page] = False
        if self._holders[page] == 0:
            self._n_cached -= 1
            self._free.append(page)

    def check_sums(self, n_kept: int) -> None:
        """Assert that free + cached + live = n_pages, each counted for itself, when the tree keeps n_kept.

        The cheap part of `check`: two passes over an array, for an engine that is idle.
        """
        is_held = self._holders > 0  # (n_pages,)
        n_live = int(np.count_nonzero(is_held))
        n_cached = int(np.count_nonzero(self._is_kept & ~is_held))
        assert len(self._free) + n_cached + n_live == self.n_pages, (
            f"{len(self._free)} free, {n_cached} cached and {n_live} live pages are not {self.n_pages}"
        )
        assert n_cached == self._n_cached, f"{n_cached} pages are cached, {self._n_cached} were counted"
        n_marked = int(np.count_nonzero(self._is_kept))
        assert n_marked == n_kept, f"{n_marked} pages are marked as kept, the tree keeps {n_kept}"

    def check(self, tables: Iterable[Iterable[int]], kept: Iterable[int] = ()) -> None:
        """Assert that tables and tree have each page as the pool believes, and that the rest are free."""
        held = Counter(page for table in tables for page in table)
        kept = Counter(kept)
        for page in range(self.n_pages):
            assert self._holders[page] == held[page], (
                f"page {page} is counted {self._holders[page]} times and held {held[page]} times"
            )
            assert self._is_kept[page] == kept[page], f"page {page} is kept {kept[page]} times"
        free = set(self._free)
        assert len(free) == len(self._free), "a page is free twice"
        assert free == {page for page in range(self.n_pages) if not held[page] and not kept[page]}, (
            "free and held pages overlap"
        )
        assert self._n_cached == sum(not held[page] for page in kept), "cached pages are miscounted"
        assert self.n_free + self.n_cached + self.n_live == self.n_pages
