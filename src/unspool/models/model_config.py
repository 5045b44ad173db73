"""The shape of a network in numbers, and the bounds of what a file may claim about it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

from unspool.errors import ModelFileError, UnsupportedModel
from unspool.light_dataclass import dataclass
from unspool.models.families import Activation, Family
from unspool.models.rope import Rotary

# Bounds that no real model passes and that keep later products of two sizes far from overflow.
MAX_LAYERS = 1_024
MAX_HEADS = 4_096
MAX_HEAD_DIM = 4_096
MAX_WIDTH = 1 << 20
MAX_VOCAB = 1 << 24
MAX_CONTEXT = 1 << 30
MAX_ROPE_BASE = 1e15
MAX_FACTOR = 1e6


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """One network in numbers. Widths count values of a row, lengths count tokens."""

    path: Path  # of the file, for messages
    family: Family
    n_layers: int
    width: int  # values of the residual stream
    ffn_width: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    vocab_size: int
    context_length: int
    norm_eps: float
    activation: Activation
    attention_scale: float  # of q k^T
    attention_softcap: float | None
    logit_softcap: float | None
    tied_output: bool  # the output projection is the embedding table
    required_biases: frozenset[str]  # stems of the projections that must have one: "attn_q"
    windows: tuple[int | None, ...]  # by layer; None sees everything before it
    rotaries: tuple[Rotary, ...]  # by layer
    rope_style: Literal["half", "interleaved"]

    @property
    def embedding_scale(self) -> float:
        """Gemma multiplies embeddings by the root of their width; the rest take them as they are."""
        return math.sqrt(self.width) if self.family.scaled_embedding else 1.0

    @property
    def q_width(self) -> int:
        return self.n_heads * self.head_dim

    @property
    def kv_width(self) -> int:
        return self.n_kv_heads * self.head_dim


def head_size(path: Path, width: int, n_heads: int, field: str) -> int:
    """width / n_heads, for files that do not give the head's size."""
    if width % n_heads:
        raise ModelFileError(path, field, f"width {width} does not divide into {n_heads} heads")
    return width // n_heads


def effective_windows(
    window: int, is_windowed: tuple[bool, ...], context_length: int
) -> tuple[int | None, ...]:
    """The window of each layer; None also where it is off (0) or never shorter than the context."""
    return tuple(window if here and 0 < window < context_length else None for here in is_windowed)


def unsupported(path: Path, what: str, choices: str = "") -> UnsupportedModel:
    """One shape for every refusal: the file, the thing by name, and what would be accepted."""
    return UnsupportedModel(
        f"{path}: {what} is not supported" + (f"; supported: {choices}" if choices else "")
    )
