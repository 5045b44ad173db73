"""The shape of a model's cache from its file, also of models that this engine does not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unspool.errors import UnsupportedModel
from unspool.models.cache_shape import MAX_LAYERS, CacheShape
from unspool.models.config import read_config
from unspool.models.model_config import ModelConfig
from unspool.models.weights.base import WeightSource


def shape_of(config: ModelConfig) -> CacheShape:
    return CacheShape.of_heads(
        config.n_layers,
        config.n_kv_heads,
        config.head_dim,
        windows=config.windows,
        context_length=config.context_length,
    )


def read_shape(source: WeightSource) -> tuple[CacheShape, bool]:
    """The shape that a model's file tells, and whether this engine runs the model.

    Of an architecture that it does not run the common keys are read; UnsupportedModel where they say too
    little.
    """
    try:
        return shape_of(read_config(source)), True
    except UnsupportedModel:
        found = _gguf_shape(source.metadata) if source.format == "gguf" else _hf_shape(source.metadata)
        if found is None:
            raise
        return found, False


def _gguf_shape(metadata: Mapping[str, Any]) -> CacheShape | None:
    name = metadata.get("general.architecture")

    def field(key: str) -> Any:
        return metadata.get(f"{name}.{key}")

    n_layers, n_heads = _count(field("block_count")), _count(field("attention.head_count"))
    context = _count(field("context_length"))
    if n_layers is None or n_layers > MAX_LAYERS:
        return None
    rank, rope = _count(field("attention.kv_lora_rank")), _count(field("rope.dimension_count"))
    if rank is not None and rope is not None:
        return CacheShape.of_latent(n_layers, rank, rope, context_length=context)
    kv_heads = field("attention.head_count_kv")
    if isinstance(kv_heads, (list, tuple, np.ndarray)):
        per_layer = [count for n in kv_heads if (count := _count(int(n))) is not None]
        heads: int | Sequence[int] | None = per_layer if len(per_layer) == n_layers else None
    else:
        heads = _count(kv_heads) if kv_heads is not None else n_heads
    width, head_dim = _count(field("embedding_length")), _count(field("attention.key_length"))
    if head_dim is None and width is not None and n_heads is not None:
        head_dim = width // n_heads
    if heads is None or head_dim is None or field("attention.sliding_window"):
        return None  # which layers have the window is each architecture's own affair
    return CacheShape.of_heads(n_layers, heads, head_dim, context_length=context)


def _hf_shape(config: Mapping[str, Any]) -> CacheShape | None:
    n_layers, n_heads = _count(config.get("num_hidden_layers")), _count(config.get("num_attention_heads"))
    context = _count(config.get("max_position_embeddings"))
    if n_layers is None or n_layers > MAX_LAYERS:
        return None
    rank, rope = _count(config.get("kv_lora_rank")), _count(config.get("qk_rope_head_dim"))
    if rank is not None and rope is not None:
        return CacheShape.of_latent(n_layers, rank, rope, context_length=context)
    heads = _count(config.get("num_key_value_heads", n_heads))
    width, head_dim = _count(config.get("hidden_size")), _count(config.get("head_dim"))
    if head_dim is None and width is not None and n_heads is not None:
        head_dim = width // n_heads
    if heads is None or head_dim is None or config.get("sliding_window"):
        return None
    return CacheShape.of_heads(n_layers, heads, head_dim, context_length=context)


def _count(value: Any) -> int | None:
    """A whole number that can be a count; None for anything else a file may hold."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 1 << 30 else None
