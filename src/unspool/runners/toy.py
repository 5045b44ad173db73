"""A runner small enough to reason about, for tests of everything above a runner.

Its logits are a hash of the whole sequence, read back through the pages it wrote. A wrong page, a
stale slot or a forgotten copy gives other logits, or fails at once: every slot remembers its position.
"""

from __future__ import annotations

import zlib

import numpy as np

from unspool import _native
from unspool.models.identity import ModelIdentity
from unspool.runners.base import KvShape
from unspool.runners.plan_check import check_plan
from unspool.types import F32, U8, Plan


class ToyRunner:
    """Deterministic logits over a vocabulary of any size; implements runners.base.Runner.

    `sharpness` scales the logits, which are normal with standard deviation 1 before it.
    """

    def __init__(
        self,
        *,
        vocab_size: int = 8,
        context_length: int = 64,
        n_pages: int = 16,
        page_size: int = 4,
        sharpness: float = 2.0,
    ) -> None:
        self.vocab_size = vocab_size
        self.context_length = context_length
        self.n_pages = n_pages
        self.page_size = page_size
        self.sharpness = sharpness
        self.kv_shape = KvShape(n_layers=1, n_kv_heads=1, head_dim=1, dtype="<i4")  # an id and a position
        self.sampler: _native.Sampler | None = None
        self.is_closed = False
        self.n_forwards = 0
        self._token_ids = np.full((n_pages, page_size), -1, dtype=np.int32)
        self._positions = np.full((n_pages, page_size), -1, dtype=np.int32)

    @property
    def identity(self) -> ModelIdentity:
        return ModelIdentity("toy", f"{self.vocab_size} {self.sharpness}")

    def forward(self, plan: Plan) -> F32:
        check_plan(plan, self)
        self.n_forwards += 1
        logits = []
        wanted = set(plan.logits_rows.tolist())
        for b, n_past in enumerate(plan.n_past.tolist()):
            first, last = int(plan.seq_start[b]), int(plan.seq_start[b + 1])
            table = plan.page_table[plan.page_start[b] : plan.page_start[b + 1]]
            positions = np.arange(n_past, n_past + last - first)
            pages, slots = table[positions // self.page_size], positions % self.page_size
            self._token_ids[pages, slots] = plan.token_ids[first:last]
            self._positions[pages, slots] = positions
            logits += [
                self.logits_of(self._read(table, n_past + row - first + 1))
                for row in range(first, last)
                if row in wanted
            ]
        return np.array(logits, dtype=np.float32).reshape(len(logits), self.vocab_size)

    def logits_of(self, token_ids: list[int]) -> F32:
        """Logits (V,) of what follows a sequence: what `forward` gives when every page is right."""
        digest = zlib.crc32(np.array(token_ids, dtype="<i4").tobytes())
        normal = np.random.Generator(np.random.PCG64(digest)).standard_normal(self.vocab_size)
        return (normal * self.sharpness).astype(np.float32)

    def copy_page(self, source: int, target: int) -> None:
        self._token_ids[target] = self._token_ids[source]
        self._positions[target] = self._positions[source]

    def read_page(self, page: int) -> U8:
        pairs = np.stack([self._token_ids[page], self._positions[page]], axis=1)  # (S, 2)
        return pairs.astype("<i4").view(np.uint8)

    def write_page(self, page: int, values: U8) -> None:
        pairs = np.ascontiguousarray(values).view("<i4")  # (S, 2)
        self._token_ids[page], self._positions[page] = pairs[:, 0], pairs[:, 1]

    def close(self) -> None:
        self.is_closed = True

    def _read(self, table: np.ndarray[tuple[int], np.dtype[np.int32]], n_tokens: int) -> list[int]:
        positions = np.arange(n_tokens)
        pages, slots = table[positions // self.page_size], positions % self.page_size
        stored = self._positions[pages, slots]
        assert np.array_equal(stored, positions), f"slots hold positions {stored.tolist()}"
        token_ids: list[int] = self._token_ids[pages, slots].tolist()
        return token_ids
