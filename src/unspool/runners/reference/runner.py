"""The runner that the others are compared with."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from unspool import _native
from unspool.models.graph import Graph
from unspool.models.identity import ModelIdentity, identify
from unspool.models.weights import WeightSource
from unspool.once import once
from unspool.runners.base import DEFAULT_PAGE_SIZE, KvShape
from unspool.runners.plan_check import check_plan
from unspool.runners.reference.ops import Step
from unspool.runners.reference.pages import Pages
from unspool.runners.reference.weights import Weights
from unspool.types import F32, U8, Plan


class ReferenceRunner:
    """Runs a graph op by op; implements runners.base.Runner.

    With `row_exact` every op sees one row at a time, always in arrays of the same shape and
    alignment, so a row's bits cannot depend on its neighbours. Without it an op sees all rows of the
    plan at once: many times faster for prompts, equal up to rounding.

    `dtype` is the type of all arithmetic; `kv_dtype` that of stored K and V, float16 as the graph
    says, or float32 to compare with peers that round nothing. `keep_weights=False` decodes a weight
    each time it is needed, for models whose float32 weights do not fit in memory.
    """

    def __init__(
        self,
        graph: Graph,
        source: WeightSource,
        *,
        n_pages: int,
        page_size: int = DEFAULT_PAGE_SIZE,
        dtype: npt.DTypeLike = np.float32,
        kv_dtype: npt.DTypeLike = np.float16,
        row_exact: bool = True,
        keep_weights: bool = True,
    ) -> None:
        assert page_size > 0, f"page_size must be a power of two, not {page_size}"
        assert page_size & (page_size - 1) == 0, f"page_size must be a power of two, not {page_size}"
        self.graph = graph
        self.vocab_size = graph.vocab_size
        self.sampler: _native.Sampler | None = None
        self.context_length = graph.context_length
        self.page_size = page_size
        self.n_pages = n_pages
        self.kv_shape = KvShape(graph.n_layers, graph.n_kv_heads, graph.head_dim, np.dtype(kv_dtype).str)
        self._source = source
        self._dtype: np.dtype[Any] = np.dtype(dtype)
        self._row_exact = row_exact
        self._weights = Weights(source, self._dtype, keep=keep_weights)
        self._pages = Pages(self.kv_shape, n_pages, page_size)

    @once
    def identity(self) -> ModelIdentity:
        return identify(self.graph, self._source)

    def forward(self, plan: Plan) -> F32:
        check_plan(plan, self)
        step = Step(
            self.graph, plan, self._weights, self._pages, dtype=self._dtype, row_exact=self._row_exact
        )
        for op in self.graph.ops:
            step.run(op)
        return step.registers["logits"].astype(np.float32)  # (W, V)

    def copy_page(self, source: int, target: int) -> None:
        self._pages.copy(source, target)

    def read_page(self, page: int) -> U8:
        return self._pages.read(page)

    def write_page(self, page: int, values: U8) -> None:
        self._pages.write(page, values)

    def close(self) -> None:
        """Drop the decoded weights; the source stays its owner's to close."""
        self._weights.forget()
