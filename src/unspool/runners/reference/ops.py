"""What each op of a graph computes, in plain NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

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
from unspool.runners.reference.pages import Pages
from unspool.runners.reference.weights import Array, Weights, aligned
from unspool.types import Plan


class Step:
    """One forward pass: the plan, spelled out for each row, and the registers."""

    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        weights: Weights,
        pages: Pages,
        *,
        dtype: np.dtype[Any],
        row_exact: bool,
    ) -> None:
        self.plan = plan
        self.weights = weights
        self.pages = pages
        self.dtype = dtype
        self.registers: dict[str, Array] = {}  # each (R or W, width)
        self._widths = graph.widths
        self._row_exact = row_exact
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
        width = self._widths[out]
        result = np.empty((n_rows, width), self.dtype)
        for rows in self.blocks(n_rows):
            result[rows] = compute(op, self, rows)
        self.registers[out] = result

    def blocks(self, n_rows: int) -> Iterator[slice]:
        """The rows that an op sees together: one, or all."""
        if not self._row_exact:
            if n_rows:
                yield slice(0, n_rows)
            return
        for row in range(n_rows):
            yield slice(row, row + 1)

    def cells(self, sequence: int, n_tokens: int) -> npt.NDArray[np.int64]:
        """(n_tokens,) where in the storage each position of a sequence lives."""
        start, stop = self.plan.page_start[sequence : sequence + 2]
        return self.pages.cells(self.plan.page_table[start:stop], n_tokens)

    def write_keys_and_values(self, op: Attention) -> None:
        shape = (-1, op.n_kv_heads, op.head_dim)
        keys = self.registers[op.k].reshape(shape)
        values = self.registers[op.v].reshape(shape)
        for b in range(len(self.plan.n_past)):
            start, stop = self.plan.seq_start[b : b + 2]
            past = self.plan.n_past[b]
            cells = self.cells(b, past + stop - start)[past:]
            self.pages.keys[op.layer, cells] = keys[start:stop]
            self.pages.values[op.layer, cells] = values[start:stop]


def _embed(op: Embed, step: Step, rows: slice) -> Array:
    embedded: Array = step.weights.rows(op.weight, step.plan.token_ids[rows]) * op.scale
    return embedded


def _rms_norm(op: RmsNorm, step: Step, rows: slice) -> Array:
    x = step.registers[op.x][rows]
    groups = x.reshape(-1, op.group or x.shape[1])  # (rows * groups, group)
    mean_square = np.mean(groups * groups, axis=1, keepdims=True)
    normed: Array = groups / np.sqrt(mean_square + op.eps) * step.weights.whole(op.weight)
    return normed.reshape(x.shape)


def _linear(op: Linear, step: Step, rows: slice) -> Array:
    part = slice(*op.rows) if op.rows else slice(None)
    weight = step.weights.whole(op.weight)[part]  # (n_out, n_in)
    y: Array = aligned(step.registers[op.x][rows], step.dtype) @ weight.T
    return y if op.bias is None else y + step.weights.whole(op.bias)[part]


def _rope(op: Rope, step: Step, rows: slice) -> Array:
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


def _attention(op: Attention, step: Step, rows: slice) -> Array:
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
            keys = aligned(step.pages.keys[op.layer, cells, head], step.dtype)  # (T, D)
            values = aligned(step.pages.values[op.layer, cells, head], step.dtype)
            grouped = aligned(queries[:, head], step.dtype)  # (r, H/K, D)
            scores = grouped @ keys.T * op.scale  # (r, H/K, T)
            if op.softcap is not None:
                scores = _capped(scores, op.softcap)
            scores = np.where(hidden[:, None], -np.inf, scores)
            result[:, head] = _softmax(scores) @ values
        out[mine] = result.reshape(len(mine), -1)
    return out


def _gated_activation(op: GatedActivation, step: Step, rows: slice) -> Array:
    gate, up = step.registers[op.gate][rows], step.registers[op.up][rows]
    activated = _silu(gate) if op.kind == "silu" else _gelu_tanh(gate)
    result: Array = activated * up
    return result


def _add(op: Add, step: Step, rows: slice) -> Array:
    result: Array = step.registers[op.a][rows] + step.registers[op.b][rows]
    return result


def _scale(op: Scale, step: Step, rows: slice) -> Array:
    result: Array = step.registers[op.x][rows] * op.factor
    return result


def _soft_cap(op: SoftCap, step: Step, rows: slice) -> Array:
    return _capped(step.registers[op.x][rows], op.cap)


_COMPUTE: dict[type[Op], Callable[[Any, Step, slice], Array]] = {
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
