"""The reference runner's storage of K and V: a cell for each slot of each page."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unspool.runners.base import KvShape
from unspool.types import I32, U8


class Pages:
    """Keys and values of all layers. Slot s of page p is cell p * S + s."""

    def __init__(self, shape: KvShape, n_pages: int, page_size: int) -> None:
        self.n_pages = n_pages
        self.page_size = page_size
        self._shape = shape
        cells = (shape.n_layers, n_pages * page_size, shape.n_kv_heads, shape.head_dim)
        self.keys = np.zeros(cells, shape.dtype)  # (L, P * S, K, D)
        self.values = np.zeros(cells, shape.dtype)

    def cells(self, table: I32, n_tokens: int) -> npt.NDArray[np.int64]:
        """(n_tokens,) where the positions of a sequence lie that has the pages of `table`."""
        positions = np.arange(n_tokens)
        pages = table[positions // self.page_size]
        cells: npt.NDArray[np.int64] = pages * self.page_size + positions % self.page_size
        return cells

    def copy(self, source: int, target: int) -> None:
        read, write = self._cells_of(source), self._cells_of(target)
        self.keys[:, write] = self.keys[:, read]
        self.values[:, write] = self.values[:, read]

    def read(self, page: int) -> U8:
        """(S, bytes of a token): see `Runner.read_page`."""
        cells = self._cells_of(page)
        values = np.stack([self.keys[:, cells], self.values[:, cells]])  # (2, L, S, K, D)
        by_token = np.ascontiguousarray(values.transpose(2, 1, 0, 3, 4))  # (S, L, 2, K, D)
        return by_token.reshape(self.page_size, -1).view(np.uint8)

    def write(self, page: int, values: U8) -> None:
        cells, shape = self._cells_of(page), self._shape
        by_token = np.ascontiguousarray(values).view(shape.dtype)
        by_token = by_token.reshape(-1, shape.n_layers, 2, shape.n_kv_heads, shape.head_dim)
        self.keys[:, cells] = by_token[:, :, 0].transpose(1, 0, 2, 3)
        self.values[:, cells] = by_token[:, :, 1].transpose(1, 0, 2, 3)

    def _cells_of(self, page: int) -> slice:
        assert 0 <= page < self.n_pages, f"page {page} is out of range [0, {self.n_pages})"
        return slice(page * self.page_size, (page + 1) * self.page_size)
