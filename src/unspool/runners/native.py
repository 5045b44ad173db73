"""The native runner: builds the C++ core from a graph and its weights, and hands plans to it.

Weights are repacked once, multi-threaded, into tiles of sixteen interleaved output rows with the values
of the file to the last bit; the file's pages are given back as they are read, so that loading needs little
more memory than the packed weights. Linear inputs are quantized to 8 bits per row and 16 values
(32 for Q4_K, Q5_K and IQ4_XS) when the weights are; norms, attention and activations are float32, K and V
float16.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from unspool import _native
from unspool.errors import BadRequest, CapacityError, ModelFileError, UnsupportedModel
from unspool.models.graph import (
    Add,
    Attention,
    Embed,
    GatedActivation,
    Graph,
    RmsNorm,
    Rope,
    Scale,
    SelectRows,
    SoftCap,
)
from unspool.models.identity import ModelIdentity, identify
from unspool.models.weights import Tensor, WeightSource, dequantize
from unspool.models.weights.ggml_types import ENCODING_OF_TYPE
from unspool.models.weights.mapped_file import release_pages
from unspool.runners.base import DEFAULT_PAGE_SIZE, KvShape
from unspool.runners.instructions import Instruction, Kind
from unspool.runners.kv_order import page_of_tokens, tokens_of_page
from unspool.runners.lowering import Lowered, Products, lower
from unspool.runners.packed_size import packed_bytes
from unspool.types import F32, U8, Plan

# The core knows encodings by their GGUF type numbers.
TYPE_NUMBERS = {encoding: number for number, encoding in ENCODING_OF_TYPE.items()}
MAX_HEAD_DIM = 512  # kMaxHeadDim in csrc/kernels.h
MAX_THREADS = 256
PAGE_SIZES = (16, 32, 64, 128)  # multiples of 16 that divide kSegment
_KINDS: Final[Mapping[type, Kind]] = MappingProxyType(
    {
        Embed: "embedding",
        RmsNorm: "norm",
        Rope: "rope",
        Attention: "attention",
        GatedActivation: "gate",
    }
)
_NONE = -1
_LOGITS = -2


def instruction_sets() -> list[str]:
    """Kernel sets that this machine runs, widest first. `UNSPOOL_ISA` forces one."""
    return list(_native.instruction_sets())


def usable_processors() -> int:
    """How many processors this process may run on."""
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:  # not on macOS or Windows
        return max(1, os.cpu_count() or 1)


class NativeRunner:
    """A `Runner` over the C++ core.

    `n_threads` defaults to the processors this process may run on; the caller's thread is one of them.
    Results do not depend on it.
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
        n_threads = usable_processors() if n_threads is None else n_threads
        if not 1 <= n_threads <= MAX_THREADS:
            raise BadRequest(
                f"threads must be in [1, {MAX_THREADS}], got {n_threads}; leave it out for all processors",
                code="bad_threads",
            )
        if page_size not in PAGE_SIZES:
            raise BadRequest(
                f"page_size must be one of {', '.join(map(str, PAGE_SIZES))} for the native runner, "
                f"got {page_size}; leave it out for {DEFAULT_PAGE_SIZE}",
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
                "runner; use the reference runner"
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
                f"the system gives no {n_threads} threads ({problem}); give fewer threads",
                code="out_of_threads",
            ) from None
        builder = _Builder(engine, graph, source)
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

    @cached_property
    def identity(self) -> ModelIdentity:
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
        """Of the last pass that noted them, (threads, instructions, 3): see `instructions.spans`."""
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


class _Builder:
    """Adds weights, registers and instructions to an engine."""

    def __init__(self, engine: _native.Engine, graph: Graph, source: WeightSource) -> None:
        self.engine = engine
        self.source = source
        self.instructions, widths = lower(graph)
        self.registers = {
            name: engine.add_register(width) for name, width in widths.items() if name != "logits"
        }
        self.matrices: dict[tuple[str, tuple[int, int] | None], int] = {}
        self.vectors: dict[tuple[str, tuple[int, int] | None], int] = {}
        self.ropes: dict[tuple[tuple[float, ...], float], int] = {}
        self.selected = False
        self.told: list[Instruction] = []

    def build(self) -> None:
        for op in self.instructions:
            self._add(op)

    def _register(self, name: str) -> int:
        return _LOGITS if name == "logits" else self.registers[name]

    def _registers(self, names: Iterable[str]) -> Sequence[int]:
        return [self._register(name) for name in names]

    def _matrix(self, name: str, rows: tuple[int, int] | None = None) -> int:
        key = (name, rows)
        if key not in self.matrices:
            tensor = self.source.tensor(name)
            n, k = tensor.shape
            row_bytes = k // tensor.encoding.block_values * tensor.encoding.block_bytes
            start, stop = rows or (0, n)
            data = tensor.data[start * row_bytes : stop * row_bytes]
            number = TYPE_NUMBERS[tensor.encoding]
            try:
                self.matrices[key] = self.engine.add_matrix(number, data, stop - start, k)
            except OverflowError as problem:
                raise self._not_finite(name) from problem
            release_pages(data)
        return self.matrices[key]

    def _vector(self, name: str, rows: tuple[int, int] | None = None) -> int:
        key = (name, rows)
        if key not in self.vectors:
            tensor: Tensor = self.source.tensor(name)
            start, stop = rows or (0, tensor.shape[0])
            values = np.ascontiguousarray(dequantize(tensor)[start:stop], dtype=np.float32)
            if not np.isfinite(values).all():
                raise self._not_finite(name)
            self.vectors[key] = self.engine.add_vector(values)
        return self.vectors[key]

    def _not_finite(self, name: str) -> ModelFileError:
        return ModelFileError(
            self.source.path, name, "holds infinities or what is not a number; fetch the model again"
        )

    def _rope(self, op: Rope) -> int:
        key = (op.inv_freq, op.magnitude)
        if key not in self.ropes:
            self.ropes[key] = self.engine.add_rope(np.asarray(op.inv_freq, np.float64), op.magnitude)
        return self.ropes[key]

    def _products(self, op: Products) -> None:
        """One instruction for the quantized matrices of `op` and one for the float ones."""
        for quantized in (True, False):
            parts = [
                (
                    self._matrix(part.linear.weight, part.linear.rows),
                    _NONE if part.linear.bias is None else self._vector(part.linear.bias, part.linear.rows),
                    self._register(part.linear.out),
                    part.accumulate,
                )
                for part in op.parts
                if (self.source.tensor(part.linear.weight).encoding.block_values > 1) == quantized
            ]
            if parts:
                self.engine.linear(self._register(op.x), parts, self.selected)
                self._tell_products(op, quantized)

    def _tell_products(self, op: Products, quantized: bool) -> None:
        names, n_bytes, macs = [], 0, 0
        for part in op.parts:
            tensor = self.source.tensor(part.linear.weight)
            if (tensor.encoding.block_values > 1) == quantized:
                start, stop = part.linear.rows or (0, tensor.shape[0])
                names.append(part.linear.weight)
                n_bytes += packed_bytes(tensor.encoding, stop - start, tensor.shape[1])
                macs += (stop - start) * tensor.shape[1]
        gives_logits = any(part.linear.out == "logits" for part in op.parts)
        kind: Kind = "output" if gives_logits else "products"
        self.told.append(Instruction(kind, ", ".join(names), n_bytes, macs))

    def _add(self, op: Lowered) -> None:
        engine, reg = self.engine, self._register
        if isinstance(op, Products):
            self._products(op)
        elif isinstance(op, Embed):
            engine.embed(reg(op.out), self._matrix(op.weight), op.scale)
        elif isinstance(op, RmsNorm):
            weight = self._vector(op.weight)
            group = op.group or self.source.tensor(op.weight).shape[0]
            engine.norm(reg(op.out), reg(op.x), weight, op.eps, group, self.selected)
        elif isinstance(op, Rope):
            engine.rope(reg(op.x), self._rope(op), op.head_dim, op.style == "interleaved")
        elif isinstance(op, Attention):
            out, q, k, v = self._registers((op.out, op.q, op.k, op.v))
            engine.attention(
                out, q, k, v, op.layer, op.n_heads, op.n_kv_heads, op.scale, op.softcap or 0.0, op.window or 0
            )
        elif isinstance(op, GatedActivation):
            out, gate, up = self._registers((op.out, op.gate, op.up))
            engine.gated(out, gate, up, op.kind == "gelu_tanh", self.selected)
        elif isinstance(op, Add):
            out, a, b = self._registers((op.out, op.a, op.b))
            engine.add(out, a, b, self.selected)
        elif isinstance(op, Scale):
            engine.scale(reg(op.out), reg(op.x), op.factor, self.selected)
        elif isinstance(op, SoftCap):
            engine.softcap(reg(op.out), reg(op.x), op.cap, self.selected)
        elif isinstance(op, SelectRows):
            engine.select(reg(op.out), reg(op.x))
            self.selected = True
        else:
            raise AssertionError(f"no native form of {op!r}: Linear is lowered to Products")
        if not isinstance(op, Products):
            self.told.append(
                Instruction(_KINDS.get(type(op), "other"), op.out if hasattr(op, "out") else op.x)
            )
