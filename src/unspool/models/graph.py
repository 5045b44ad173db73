"""A network as a list of ops. Architectures write it, runners compute it.

Registers are named (R, width) float32 arrays, one row per token of the plan. An op reads registers
and writes `out`, which may be a register it read. After `SelectRows` a register has W rows (those
whose logits are wanted). Weights are named by their GGUF names ("blk.0.attn_q.weight") whatever the
file they come from, and a linear weight has shape (n_out, n_in).
"""

from __future__ import annotations

from typing import Literal

from unspool.light_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Embed:
    """out = table[token_ids] * scale."""

    out: str
    weight: str  # (V, width)
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class RmsNorm:
    """out = x / sqrt(mean(x**2) + eps) * weight, over the row or over each group of `group` values.

    Zhang and Sennrich 2019 (arXiv 1910.07467). Weights are stored as multiplied: Gemma's "1 + w" is
    resolved when the file is read.
    """

    out: str
    x: str
    weight: str  # (width,) or (group,)
    eps: float
    group: int | None = None  # head size for q and k norms


@dataclass(frozen=True, slots=True)
class Linear:
    """out = x @ weight[rows].T + bias[rows]."""

    out: str
    x: str
    weight: str  # (n_out, n_in)
    bias: str | None = None  # (n_out,)
    rows: tuple[int, int] | None = None  # [start, stop) of n_out: one part of a fused projection


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary positions in place on every head of x (Su et al. 2021, arXiv 2104.09864).

    Pair i of a head is rotated by position * inv_freq[i] and multiplied by `magnitude`. Frequency
    scaling (linear, llama3, yarn) is already in inv_freq and magnitude. Pairs are (i, i + n/2) when
    `style` is "half", (2i, 2i + 1) when it is "interleaved", with n = 2 * len(inv_freq); values past
    n in a head stay as they are.
    """

    x: str
    head_dim: int
    inv_freq: tuple[float, ...]
    magnitude: float
    style: Literal["half", "interleaved"]


@dataclass(frozen=True, slots=True)
class Attention:
    """Write k and v to the pages of `layer`, then out = softmax(mask(cap(q k^T * scale))) v per head.

    Row at position t sees positions (t - window, t], or [0, t] without a window. Query head h reads
    kv head h // (n_heads / n_kv_heads). cap(s) = softcap * tanh(s / softcap). K and V are stored as
    float16.
    """

    out: str  # (R, n_heads * head_dim)
    q: str  # (R, n_heads * head_dim)
    k: str  # (R, n_kv_heads * head_dim)
    v: str  # (R, n_kv_heads * head_dim)
    layer: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    scale: float
    window: int | None = None
    softcap: float | None = None


@dataclass(frozen=True, slots=True)
class GatedActivation:
    """out = act(gate) * up (Shazeer 2020, arXiv 2002.05202)."""

    out: str
    gate: str
    up: str
    kind: Literal["silu", "gelu_tanh"]


@dataclass(frozen=True, slots=True)
class Add:
    """out = a + b."""

    out: str
    a: str
    b: str


@dataclass(frozen=True, slots=True)
class Scale:
    """out = x * factor."""

    out: str
    x: str
    factor: float


@dataclass(frozen=True, slots=True)
class SoftCap:
    """out = cap * tanh(x / cap)."""

    out: str
    x: str
    cap: float


@dataclass(frozen=True, slots=True)
class SelectRows:
    """out = the W rows of x whose logits are wanted."""

    out: str
    x: str


Op = Embed | RmsNorm | Linear | Rope | Attention | GatedActivation | Add | Scale | SoftCap | SelectRows


def reads(op: Op) -> tuple[str, ...]:
    """Registers that the op reads, all of the same number of rows; none for Embed, which reads the plan."""
    if isinstance(op, Add):
        return (op.a, op.b)
    if isinstance(op, GatedActivation):
        return (op.gate, op.up)
    if isinstance(op, Attention):
        return (op.q, op.k, op.v)
    return () if isinstance(op, Embed) else (op.x,)


def writes(op: Op) -> str:
    """The register that the op writes; rope writes the one it reads."""
    return op.x if isinstance(op, Rope) else op.out


@dataclass(frozen=True, slots=True)
class Graph:
    """A whole network. The last op writes the register "logits" (W, V)."""

    ops: tuple[Op, ...]
    widths: dict[str, int]  # register -> width
    n_layers: int  # attention layers, numbered 0..n_layers-1
    n_kv_heads: int
    head_dim: int
    vocab_size: int
    context_length: int
