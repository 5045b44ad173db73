"""How much memory keys and values take, by formula."""

from __future__ import annotations

from unspool.light_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class KvLayout:
    """The shape of a cache: L layers of K and V, K heads of D values, S tokens a page."""

    n_layers: int
    n_kv_heads: int
    head_dim: int
    page_size: int
    value_bytes: int = 2  # float16

    @property
    def token_bytes(self) -> int:
        """Bytes of one token in all layers, K and V."""
        return 2 * self.n_layers * self.n_kv_heads * self.head_dim * self.value_bytes

    @property
    def page_bytes(self) -> int:
        return self.token_bytes * self.page_size


def pages_for(n_tokens: int, page_size: int) -> int:
    """Pages that hold this many tokens of one sequence: ceil(n_tokens / page_size)."""
    return -(-n_tokens // page_size)
