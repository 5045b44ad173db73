"""How much memory a model and its keys and values take, before anything is loaded.

    bytes = B * sum over layers of min(s, window) * values * bits / 8      values = 2 * n_kv_heads * head_dim

for B sequences of s tokens; latent attention has values of its own (`CacheShape`). Two answers stand side by
side: what the formula says of a format, and what this engine allocates now, which keeps whole pages of
float16 for all layers, those with a window too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

from unspool.kv.layout import pages_for
from unspool.light_dataclass import dataclass
from unspool.models.cache_shape import CacheShape

KvFormat = Literal["f16", "int8", "int4"]
FORMATS: Final[Mapping[KvFormat, int]] = MappingProxyType({"f16": 16, "int8": 8, "int4": 4})  # bits a value
ENGINE_FORMAT: Final[KvFormat] = "f16"
_MOST_TOKENS: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class Fit:
    """What fits into some memory beside the weights. 0: nothing does."""

    context_length: int  # longest sequences, when there are as many as asked
    n_sequences: int  # most sequences, when they are as long as asked


@dataclass(frozen=True, slots=True)
class KvMemory:
    """The memory of n_sequences sequences of context_length tokens. `engine_` is this engine's, now."""

    shape: CacheShape
    context_length: int
    n_sequences: int = 1
    kv_format: KvFormat = "f16"
    page_size: int = 32
    weight_bytes: int | None = None  # as loaded
    step_bytes: int | None = None  # what the largest step works in, about
    engine_runs_it: bool = True
    n_strands: int = 1  # texts on pages of their own that this engine reads for a sequence: an amateur's too

    @property
    def token_bytes(self) -> int:
        """Of one token while it is in every window."""
        return self._formula(1, 1)

    @property
    def sequence_bytes(self) -> int:
        return self._formula(self.context_length, 1)

    @property
    def kv_bytes(self) -> int:
        return self._formula(self.context_length, self.n_sequences)

    @property
    def engine_token_bytes(self) -> int | None:
        return self._pages(1, 1, page_size=1)

    @property
    def engine_sequence_bytes(self) -> int | None:
        return self._pages(self.context_length, 1)

    @property
    def engine_kv_bytes(self) -> int | None:
        return self._pages(self.context_length, self.n_sequences)

    @property
    def total_bytes(self) -> int:
        """With the weights and a step's work, where they are known."""
        return self.kv_bytes + self._beside

    @property
    def engine_total_bytes(self) -> int | None:
        kv_bytes = self.engine_kv_bytes
        return None if kv_bytes is None else kv_bytes + self._beside

    def fit(self, memory_bytes: int) -> Fit:
        """What fits by the formula."""
        room = memory_bytes - self._beside
        most = self.shape.context_length or _MOST_TOKENS
        longest = bisect_right(
            range(1, most + 1), room, key=lambda n_tokens: self._formula(n_tokens, self.n_sequences)
        )
        return Fit(longest, max(room, 0) // self.sequence_bytes)

    def engine_fit(self, memory_bytes: int) -> Fit | None:
        """What fits into this engine's pages; None for a model that it does not run."""
        page, sequence = self._pages(self.page_size, 1), self.engine_sequence_bytes
        if page is None or sequence is None:
            return None
        room = max(memory_bytes - self._beside, 0)
        longest = room // (page * self.n_sequences) * self.page_size
        return Fit(min(longest, self.shape.context_length or _MOST_TOKENS), room // sequence)

    def to_dict(self, memory_bytes: int | None = None) -> dict[str, Any]:
        """Plain values, for JSON."""
        told: dict[str, Any] = {
            "shape": self.shape.what,
            "context_length": self.context_length,
            "n_sequences": self.n_sequences,
            "kv_format": self.kv_format,
            "page_size": self.page_size,
            "weight_bytes": self.weight_bytes,
            "step_bytes": self.step_bytes,
            "formula": {
                "token_bytes": self.token_bytes,
                "sequence_bytes": self.sequence_bytes,
                "kv_bytes": self.kv_bytes,
                "total_bytes": self.total_bytes,
            },
            "engine": None
            if self.engine_kv_bytes is None
            else {
                "kv_format": ENGINE_FORMAT,
                "token_bytes": self.engine_token_bytes,
                "sequence_bytes": self.engine_sequence_bytes,
                "kv_bytes": self.engine_kv_bytes,
                "total_bytes": self.engine_total_bytes,
            },
        }
        if memory_bytes is not None:
            told["memory_bytes"] = memory_bytes
            fits = {"formula": self.fit(memory_bytes), "engine": self.engine_fit(memory_bytes)}
            for column, fit in fits.items():
                if fit is not None:
                    told[column]["fit_context_length"] = fit.context_length
                    told[column]["fit_n_sequences"] = fit.n_sequences
        return told

    @property
    def _beside(self) -> int:
        return (self.weight_bytes or 0) + (self.step_bytes or 0)

    def _formula(self, n_tokens: int, n_sequences: int) -> int:
        n_values = sum(
            values * (n_tokens if window is None else min(n_tokens, window))
            for values, window in zip(self.shape.values, self.shape.windows, strict=True)
        )
        return -(-n_sequences * n_values * FORMATS[self.kv_format] // 8)

    def _pages(self, n_tokens: int, n_sequences: int, page_size: int | None = None) -> int | None:
        if not self.engine_runs_it:
            return None
        page_size = page_size or self.page_size
        n_pages = n_sequences * self.n_strands * pages_for(n_tokens, page_size)
        n_values = n_pages * page_size * sum(self.shape.values)  # a page is one that either model may write
        return n_values * FORMATS[ENGINE_FORMAT] // 8
