"""The seam between the engine and whatever computes logits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from unspool import _native
from unspool.light_dataclass import dataclass
from unspool.types import F32, U8, Plan

if TYPE_CHECKING:
    from unspool.models.identity import ModelIdentity

RUNNERS: Final = ("native", "reference")  # by the names that users give
DEFAULT_PAGE_SIZE: Final = 32  # tokens


@dataclass(frozen=True, slots=True)
class KvShape:
    """What a token's keys and values are: (L, 2, K, D) numbers, K before V in each layer."""

    n_layers: int
    n_kv_heads: int
    head_dim: int
    dtype: str  # as NumPy writes it, "<f2"

    @property
    def token_bytes(self) -> int:
        """Bytes of one token in all layers, K and V."""
        return 2 * self.n_layers * self.n_kv_heads * self.head_dim * np.dtype(self.dtype).itemsize


class Runner(Protocol):
    """Computes logits and owns the storage of K and V; it knows pages, never requests or text.

    The engine decides which page belongs to whom; the runner only reads and writes the pages that
    a plan names.
    """

    vocab_size: int  # V
    context_length: int  # longest sequence in tokens
    page_size: int  # tokens a page, a power of two
    n_pages: int  # pages of storage; ids are [0, n_pages)
    kv_shape: KvShape

    sampler: _native.Sampler | None  # the fused pass on its own threads, if it has any

    @property
    def identity(self) -> ModelIdentity:
        """Whose keys and values these are. Worked out when it is first asked for."""
        ...

    def forward(self, plan: Plan) -> F32:
        """Run the plan's rows, write their K and V, return logits (W, V) float32 in plan.logits_rows order:
        contiguous rows that are the caller's to write to.

        A row's logits depend on its own sequence alone, bit for bit: not on the other sequences,
        the chunking of the prompt, or the number of threads.
        """
        ...

    def copy_page(self, source: int, target: int) -> None:
        """Copy K and V of all layers from one page to another (a fork's partial page)."""
        ...

    def read_page(self, page: int) -> U8:
        """K and V of a page to the last bit, (S, kv_shape.token_bytes): token by token, whatever the
        runner's own layout, so that pages of another size can take them."""
        ...

    def write_page(self, page: int, values: U8) -> None:
        """Put back what `read_page` gave, here or in a runner of the same identity and kv_shape."""
        ...

    def close(self) -> None:
        """Free storage and threads; idempotent."""
        ...
