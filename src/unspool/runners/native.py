"""The native runner: has the C++ core built (native_builder.py), and hands plans to it.

Weights are repacked once, multi-threaded, into tiles of sixteen interleaved output rows with the values
of the file to the last bit; the file's pages are given back as they are read, so that loading needs little
more memory than the packed weights. Linear inputs are quantized to 8 bits per row and 16 values
(32 for Q5_K and IQ4_XS) when the weights are; norms, attention and activations are float32, K and V
float16.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from unspool import _native
from unspool.errors import BadRequest, CapacityError, UnsupportedModel, named
from unspool.models.graph import Graph
from unspool.models.weights import WeightSource
from unspool.once import once
from unspool.runners.base import DEFAULT_PAGE_SIZE, KvShape
from unspool.runners.kv_order import page_of_tokens, tokens_of_page
from unspool.runners.native_builder import Builder
from unspool.thread_count import check_threads, usual_threads
from unspool.types import F32, U8, Plan

if TYPE_CHECKING:
    from unspool.models.identity import ModelIdentity

MAX_HEAD_DIM = 512  # kMaxHeadDim in csrc/kernels.h
PAGE_SIZES = (16, 32, 64, 128)  # multiples of 16 that divide kSegment


def instruction_sets() -> list[str]:
    """Kernel sets that this machine runs, widest first. `UNSPOOL_ISA` forces one."""
    return list(_native.instruction_sets())


class NativeRunner:
    """A `Runner` over the C++ core.

    `n_threads` defaults to the processors this process may run on, 256 at most; the caller's thread is one of
    them. Results do not depend on it. Threads that call take turns. A forked child goes on with threads of
    its own, unless another thread had its turn at the fork: then every use raises UnspoolError with the code
    `forked`.
    """

    def __init__(
        self,
        graph: Graph,
        source: WeightSource,
        *,
        n_pages: int,
        page_size: int = DEFAULT_PAGE_SIZE,
        n_threads: int | None = None,
        isa: str | None = None,
    ) -> None:
        check_threads(n_threads)
        n_threads = usual_threads() if n_threads is None else n_threads
        if page_size not in PAGE_SIZES:
            raise BadRequest(
                f"{named('page_size')} must be one of {', '.join(map(str, PAGE_SIZES))} for the native "
                f"runner, got {page_size}; leave it out for {DEFAULT_PAGE_SIZE}",
                code="bad_page_size",
            )
        isa = os.environ.get("UNSPOOL_ISA", "") if isa is None else isa
        if isa and isa not in instruction_sets():
            raise BadRequest(
                f"instruction set {isa!r} is not available here; UNSPOOL_ISA takes one of "
                f"{', '.join(instruction_sets())}",
                code="bad_isa",
            )
        if graph.head_dim > MAX_HEAD_DIM:
            raise UnsupportedModel(
                f"the model's heads have {graph.head_dim} values, at most {MAX_HEAD_DIM} for the native "
                f"runner; give {named('runner', 'reference')}"
            )
        self.vocab_size = graph.vocab_size
        self.context_length = graph.context_length
        self.page_size = page_size
        self.n_pages = n_pages
        self.n_threads = n_threads
        self.kv_shape = KvShape(graph.n_layers, graph.n_kv_heads, graph.head_dim, np.dtype(np.float16).str)
        self._model = (graph, source)
        try:
            engine = _native.Engine(n_threads, isa)
        except RuntimeError as problem:
            raise CapacityError(
                f"the system gives no {n_threads} threads ({problem}); give fewer {named('threads')}",
                code="out_of_threads",
            ) from None
        builder = Builder(engine, graph, source)
        builder.build()
        self.instructions = tuple(builder.told)  # in the order in which a pass runs them
        engine.finish(
            graph.vocab_size,
            graph.context_length,
            graph.n_layers,
            graph.n_kv_heads,
            graph.head_dim,
            n_pages,
            page_size,
        )
        self.isa: str = engine.isa
        self.weight_bytes: int = engine.weight_bytes
        self.kv_bytes: int = engine.kv_bytes
        self.sampler: _native.Sampler | None = engine.sampler()
        self._engine: _native.Engine | None = engine

    @once
    def identity(self) -> ModelIdentity:
        from unspool.models.identity import identify

        return identify(*self._model)

    def forward(self, plan: Plan) -> F32:
        assert self._engine is not None, "the runner is closed"
        try:
            return self._engine.forward(
                plan.token_ids,
                plan.seq_start,
                plan.n_past,
                plan.page_table,
                plan.page_start,
                plan.logits_rows,
            )
        except ValueError as problem:  # plans come from the engine, so a bad one is our mistake
            raise AssertionError(str(problem)) from problem

    def note_times(self, on: bool) -> None:
        """Whether forward passes note when each instruction ran; without, no clock is read."""
        assert self._engine is not None, "the runner is closed"
        self._engine.note_times(on)

    def times(self) -> npt.NDArray[np.int64]:
        """Of the last pass that noted them, (laps, 5): see `instructions.spans`."""
        assert self._engine is not None, "the runner is closed"
        return self._engine.times()

    def read_rate(self) -> float:
        """Bytes a second that the runner's threads read from memory together, measured now."""
        assert self._engine is not None, "the runner is closed"
        return self._engine.read_rate()

    def integer_rate(self) -> float:
        """Multiply-adds of 8-bit integers a second in registers, all threads together, measured now."""
        assert self._engine is not None, "the runner is closed"
        return self._engine.integer_rate()

    def copy_page(self, source: int, target: int) -> None:
        assert self._engine is not None, "the runner is closed"
        assert 0 <= source < self.n_pages, f"page {source} is not in [0, {self.n_pages})"
        assert 0 <= target < self.n_pages, f"page {target} is not in [0, {self.n_pages})"
        self._engine.copy_page(source, target)

    def read_page(self, page: int) -> U8:
        assert self._engine is not None, "the runner is closed"
        return tokens_of_page(self._engine.read_page(page), self.kv_shape, self.page_size)

    def write_page(self, page: int, values: U8) -> None:
        assert self._engine is not None, "the runner is closed"
        self._engine.write_page(page, page_of_tokens(values, self.kv_shape, self.page_size))

    def close(self) -> None:
        self._engine = self.sampler = None
