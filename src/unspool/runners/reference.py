"""The oracle: every op of a graph in plain NumPy, over paged keys and values. Obvious first, fast never."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from unspool import _native
from unspool.models.graph import (
    Add,
    Attention,
    Embed,
    GatedActivation,
    Graph,
    Linear,
    Op,
    RmsNorm,
    Rope,
    Scale,
    SelectRows,
    SoftCap,
    reads,
    writes,
)
from unspool.models.identity import ModelIdentity, identify
from unspool.models.weights import WeightSource, dequantize, dequantize_rows
from unspool.runners.base import DEFAULT_PAGE_SIZE, KvShape
from unspool.runners.plan_check import check_plan
from unspool.types import F32, I32, U8, Plan

Array = npt.NDArray[Any]  # of the runner's dtype
_ALIGNMENT_BYTES = 64


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
        self._source = source
        self._dtype: np.dtype[Any] = np.dtype(dtype)
        self._row_exact = row_exact
        self._keep_weights = keep_weights
        self._weights: dict[str, Array] = {}
        shape = (graph.n_layers, n_pages * page_size, graph.n_kv_heads, graph.head_dim)
        self._keys = np.zeros(shape, kv_dtype)  # (L, P * S, K, D)
        self._values = np.zeros(shape, kv_dtype)
        self.kv_shape = KvShape(graph.n_layers, graph.n_kv_heads, graph.head_dim, np.dtype(kv_dtype).str)

    @cached_property
    def identity(self) -> ModelIdentity:
        return identify(self.graph, self._source)

    def forward(self, plan: Plan) -> F32:
        check_plan(plan, self)
        step = _Step(self, plan)
        for op in self.graph.ops:
            step.run(op)
        return step.registers["logits"].astype(np.float32)  # (W, V)

    def copy_page(self, source: int, target: int) -> None:
        assert 0 <= source < self.n_pages, f"page {source} is out of range [0, {self.n_pages})"
        assert 0 <= target < self.n_pages, f"page {target} is out of range [0, {self.n_pages})"
        read = slice(source * self.page_size, (source + 1) * self.page_size)
        write = slice(target * self.page_size, (target + 1) * self.page_size)
        self._keys[:, write] = self._keys[:, read]
        self._values[:, write] = self._values[:, read]

    def read_page(self, page: int) -> U8:
        assert 0 <= page < self.n_pages, f"page {page} is out of range [0, {self.n_pages})"
        cells = slice(page * self.page_size, (page + 1) * self.page_size)
        values = np.stack([self._keys[:, cells], self._values[:, cells]])  # (2, L, S, K, D)
        by_token = np.ascontiguousarray(values.transpose(2, 1, 0, 3, 4))  # (S, L, 2, K, D)
        return by_token.reshape(self.page_size, -1).view(np.uint8)

    def write_page(self, page: int, values: U8) -> None:
        assert 0 <= page < self.n_pages, f"page {page} is out of range [0, {self.n_pages})"
        cells = slice(page * self.page_size, (page + 1) * self.page_size)
        shape = self.kv_shape
        by_token = np.ascontiguousarray(values).view(shape.dtype)
        by_token = by_token.reshape(-1, shape.n_layers, 2, shape.n_kv_heads, shape.head_dim)
        self._keys[:, cells] = by_token[:, :, 0].transpose(1, 0, 2, 3)
        self._values[:, cells] = by_token[:, :, 1].transpose(1, 0, 2, 3)

    def close(self) -> None:
        """Drop the decoded weights; the source stays its owner's to close."""
        self._weights.clear()

    def weight(self, name: str) -> Array:
        """A tensor decoded to the runner's dtype, and kept unless told otherwise."""
        found = self._weights.get(name)
        if found is None:
            found = _aligned(dequantize(self._source.tensor(name)), self._dtype)
            if self._keep_weights:
                self._weights[name] = found
        return found

    def embedding_rows(self, name: str, token_ids: I32) -> Array:
        """(rows, width): only the rows of the table that are asked for are decoded."""
        return dequantize_rows(self._source.tensor(name), token_ids).astype(self._dtype)


class _Step:
    """One forward pass: the plan, spelled out for each row, and the registers."""

    def __init__(self, runner: ReferenceRunner, plan: Plan) -> None:
        self.runner = runner
        self.plan = plan
        self.dtype = runner._dtype
        self.registers: dict[str, Array] = {}  # each (R or W, width)
        n_rows_each = np.diff(plan.seq_start)
        self.sequence = np.repeat(np.arange(len(plan.n_past)), n_rows_each)  # (R,)
        first_row = plan.seq_start[:-1][self.sequence]
        self.position = np.arange(len(plan.token_ids)) - first_row + plan.n_past[self.sequence]  # (R,)

    def run(self, op: Op) -> None:
        if isinstance(op, SelectRows):
            self.registers[op.out] = self.registers[op.x][self.plan.logits_rows]
            return
        if isinstance(op, Attention):
            self.write_keys_and_values(op)
        compute = _COMPUTE[type(op)]
        inputs, out = reads(op), writes(op)
        n_rows = len(self.registers[inputs[0]]) if inputs else len(self.plan.token_ids)
        width = self.runner.graph.widths[out]
        result = np.empty((n_rows, width), self.dtype)
        for rows in self.blocks(n_rows):
            result[rows] = compute(op, self, rows)
        self.registers[out] = result

    def blocks(self, n_rows: int) -> Iterator[slice]:
        """The rows that an op sees together: one, or all."""
        if not self.runner._row_exact:
            if n_rows:
                yield slice(0, n_rows)
            return
        for row in range(n_rows):
            yield slice(row, row + 1)

    def cells(self, sequence: int, n_tokens: int) -> npt.NDArray[np.int64]:
        """(n_tokens,) where in the storage each position of a sequence lives."""
        start, stop = self.plan.page_start[sequence : sequence + 2]
        page_size = self.runner.page_size
        positions = np.arange(n_tokens)
        pages = self.plan.page_table[start:stop][positions // page_size]
        cells: npt.NDArray[np.int64] = pages * page_size + positions % page_size
        return cells

    def write_keys_and_values(self, op: Attention) -> None:
        shape = (-1, op.n_kv_heads, op.head_dim)
        keys = self.registers[op.k].reshape(shape)
        values = self.registers[op.v].reshape(shape)
        for b in range(len(self.plan.n_past)):
            start, stop = self.plan.seq_start[b : b + 2]
            past = self.plan.n_past[b]
            cells = self.cells(b, past + stop - start)[past:]
            self.runner._keys[op.layer, cells] = keys[start:stop]
            self.runner._values[op.layer, cells] = values[start:stop]


def _embed(op: Embed, step: _Step, rows: slice) -> Array:
    embedded: Array = step.runner.embedding_rows(op.weight, step.plan.token_ids[rows]) * op.scale
    return embedded


def _rms_norm(op: RmsNorm, step: _Step, rows: slice) -> Array:
    x = step.registers[op.x][rows]
    groups = x.reshape(-1, op.group or x.shape[1])  # (rows * groups, group)
    mean_square = np.mean(groups * groups, axis=1, keepdims=True)
    normed: Array = groups / np.sqrt(mean_square + op.eps) * step.runner.weight(op.weight)
    return normed.reshape(x.shape)


def _linear(op: Linear, step: _Step, rows: slice) -> Array:
    part = slice(*op.rows) if op.rows else slice(None)
    weight = step.runner.weight(op.weight)[part]  # (n_out, n_in)
    y: Array = _aligned(step.registers[op.x][rows], step.dtype) @ weight.T
    return y if op.bias is None else y + step.runner.weight(op.bias)[part]


def _rope(op: Rope, step: _Step, rows: slice) -> Array:
    x = step.registers[op.x][rows]
    heads = x.reshape(len(x), -1, op.head_dim).copy()  # (rows, H, D)
    # Angles in float64 whatever the dtype: float32 has no digits left for them at long positions.
    angles = step.position[rows, None, None] * np.asarray(op.inv_freq)  # (rows, 1, n/2)
    cos = (np.cos(angles) * op.magnitude).astype(step.dtype)
    sin = (np.sin(angles) * op.magnitude).astype(step.dtype)
    half = len(op.inv_freq)
    if op.style == "half":
        first, second = slice(0, half), slice(half, 2 * half)
    else:
        first, second = slice(0, 2 * half, 2), slice(1, 2 * half, 2)
    a, b = heads[..., first].copy(), heads[..., second].copy()
    heads[..., first] = a * cos - b * sin
    heads[..., second] = b * cos + a * sin
    rotated: Array = heads.reshape(x.shape)
    return rotated


def _attention(op: Attention, step: _Step, rows: slice) -> Array:
    """Sequence by sequence, kv head by kv head, over exactly the positions that some row sees."""
    out = np.empty((rows.stop - rows.start, op.n_heads * op.head_dim), step.dtype)
    for b in np.unique(step.sequence[rows]):
        mine = np.flatnonzero(step.sequence[rows] == b)
        positions = step.position[rows][mine]  # (r,) ascending
        first = 0 if op.window is None else max(0, positions[0] - op.window + 1)
        cells = step.cells(b, positions[-1] + 1)[first:]
        seen = np.arange(first, positions[-1] + 1)  # (T,)
        hidden = seen > positions[:, None]  # (r, T)
        if op.window is not None:
            hidden |= seen <= positions[:, None] - op.window
        queries = step.registers[op.q][rows][mine].reshape(len(mine), op.n_kv_heads, -1, op.head_dim)
        result = np.empty_like(queries)  # (r, K, H/K, D)
        for head in range(op.n_kv_heads):
            keys = _aligned(step.runner._keys[op.layer, cells, head], step.dtype)  # (T, D)
            values = _aligned(step.runner._values[op.layer, cells, head], step.dtype)
            grouped = _aligned(queries[:, head], step.dtype)  # (r, H/K, D)
            scores = grouped @ keys.T * op.scale  # (r, H/K, T)
            if op.softcap is not None:
                scores = _capped(scores, op.softcap)
            scores = np.where(hidden[:, None], -np.inf, scores)
            result[:, head] = _softmax(scores) @ values
        out[mine] = result.reshape(len(mine), -1)
    return out


def _gated_activation(op: GatedActivation, step: _Step, rows: slice) -> Array:
    gate, up = step.registers[op.gate][rows], step.registers[op.up][rows]
    activated = _silu(gate) if op.kind == "silu" else _gelu_tanh(gate)
    result: Array = activated * up
    return result


def _add(op: Add, step: _Step, rows: slice) -> Array:
    result: Array = step.registers[op.a][rows] + step.registers[op.b][rows]
    return result


def _scale(op: Scale, step: _Step, rows: slice) -> Array:
    result: Array = step.registers[op.x][rows] * op.factor
    return result


def _soft_cap(op: SoftCap, step: _Step, rows: slice) -> Array:
    return _capped(step.registers[op.x][rows], op.cap)


_COMPUTE: dict[type[Op], Callable[[Any, _Step, slice], Array]] = {
    Embed: _embed,
    RmsNorm: _rms_norm,
    Linear: _linear,
    Rope: _rope,
    Attention: _attention,
    GatedActivation: _gated_activation,
    Add: _add,
    Scale: _scale,
    SoftCap: _soft_cap,
}


def _softmax(scores: Array) -> Array:
    """Over the last axis; every row sees at least itself, so no maximum is -inf."""
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    result: Array = weights / weights.sum(axis=-1, keepdims=True)
    return result


def _capped(x: Array, cap: float) -> Array:
    result: Array = cap * np.tanh(x / cap)
    return result


def _silu(x: Array) -> Array:
    """x * sigmoid(x), through exp of a negative number so that nothing overflows."""
    decay = np.exp(-np.abs(x))
    result: Array = x * np.where(x >= 0, 1, decay) / (1 + decay)
    return result


def _gelu_tanh(x: Array) -> Array:
    """The tanh form of GELU (Hendrycks and Gimpel 2016, arXiv 1606.08415)."""
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    result: Array = 0.5 * x * (1 + np.tanh(inner))
    return result


def _aligned(values: npt.ArrayLike, dtype: np.dtype[Any]) -> Array:
    """A contiguous copy that begins on a cache line: BLAS may sum in another order where it does not."""
    values = np.asarray(values)
    n_bytes = values.size * dtype.itemsize
    memory = np.empty(n_bytes + _ALIGNMENT_BYTES, np.uint8)
    offset = -memory.ctypes.data % _ALIGNMENT_BYTES
    copy: Array = memory[offset : offset + n_bytes].view(dtype).reshape(values.shape)
    copy[...] = values
    return copy
