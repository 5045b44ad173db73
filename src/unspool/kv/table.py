"""The page table of one branch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unspool.kv.layout import pages_for
from unspool.kv.pool import PagePool
from unspool.kv.prefix_tree import Match
from unspool.types import I32


class PageTable:
    """Which pages hold a branch's tokens, in order: position t is in page t // page_size.

    Full pages may be shared with other branches and the prefix tree, and are never written again. The
    last, partial page is the branch's own: `fork` says which page to copy.
    """

    def __init__(self, pool: PagePool, page_size: int) -> None:
        self._pool = pool
        self.page_size = page_size
        self._pages: I32 = np.empty(8, dtype=np.int32)  # grows by doubling, so that `pages` is a view
        self._n_pages = 0

    @property
    def pages(self) -> I32:
        """(P,) page ids. A view: valid until the table changes."""
        return self._pages[: self._n_pages]

    @property
    def n_tokens(self) -> int:
        """How many tokens the pages have room for."""
        return self._n_pages * self.page_size

    def grow(self, n_tokens: int) -> None:
        """Hold pages for n_tokens tokens at least; all that is missing or CapacityError."""
        missing = pages_for(n_tokens, self.page_size) - self._n_pages
        if missing <= 0:
            return
        taken = self._pool.take(missing)
        needed = self._n_pages + missing
        if needed > self._pages.size:
            larger = np.empty(max(needed, 2 * self._pages.size), dtype=np.int32)
            larger[: self._n_pages] = self.pages
            self._pages = larger
        self._pages[self._n_pages : needed] = taken
        self._n_pages = needed

    def fork(self, n_tokens: int) -> tuple[PageTable, tuple[int, int] | None]:
        """A table that continues the first n_tokens tokens, and the (source, target) of a page to copy.

        [0, n_full) full pages are shared; a partial page is new in the child and must be copied.
        """
        assert n_tokens <= self.n_tokens, f"{n_tokens} tokens are more than the {self.n_tokens} held"
        child = PageTable(self._pool, self.page_size)
        n_full = n_tokens // self.page_size
        shared = self.pages[:n_full].tolist()
        if n_tokens % self.page_size == 0:
            self._pool.share(shared)
            child._set(shared, ())
            return child, None
        own = self._pool.take(1)  # before anything is shared: on CapacityError nothing has changed
        self._pool.share(shared)
        child._set(shared, own)
        return child, (int(self._pages[n_full]), own[0])

    def empty(self) -> PageTable:
        """A table of the same pool that holds nothing."""
        return PageTable(self._pool, self.page_size)

    def adopt(self, match: Match) -> tuple[int, tuple[int, int] | None]:
        """Begin with the pages of a match: how many of its tokens, and the (source, target) of a page to
        copy when they end inside one.

        [0, n_full) whole pages belong to the tree and perhaps to others, and are never written here.
        """
        assert self._n_pages == 0, "only an empty table begins with a match"
        self._pool.share(match.pages)  # first, so that none of them is given back for the page taken below
        self._set(match.pages, ())
        if match.partial_page is None:
            return match.n_tokens, None
        self._pool.share([match.partial_page])
        own = self._pool.take(1) if self._pool.n_available else []
        self._pool.release([match.partial_page])  # the caller copies it before any other page is taken
        self._set(match.pages, own)
        if not own:
            return len(match.pages) * self.page_size, None
        return match.n_tokens, (match.partial_page, own[0])

    def replace(self, index: int, page: int) -> None:
        """Hold another page in the place of a whole one; both have the same keys and values, bit for bit."""
        old = int(self._pages[index])
        self._pool.share([page])
        self._pages[index] = page
        self._pool.release([old])

    def release(self) -> None:
        """Hold nothing any more; idempotent."""
        pages, self._n_pages = self.pages.tolist(), 0
        self._pool.release(pages)

    def _set(self, shared: Sequence[int], own: Sequence[int]) -> None:
        self._pages = np.array([*shared, *own], dtype=np.int32)
        self._n_pages = self._pages.size
