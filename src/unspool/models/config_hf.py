"""A model's configuration from the config.json of a Hugging Face folder.

Old and new spellings are read alike: rope settings sit beside rope_theta in rope_scaling, or all
together in rope_parameters, there also one table for each kind of layer.
"""

from __future__ import annotations

import math
from typing import Any

from unspool.models import model_config as bounds
from unspool.models.config_fields import Fields
from unspool.models.families import FAMILIES, SUPPORTED, Activation, Family
from unspool.models.model_config import ModelConfig, effective_windows, head_size, unsupported
from unspool.models.rope import (
    LinearScaling,
    Llama3Scaling,
    Rotary,
    Scaling,
    YarnScaling,
    rotary,
    yarn_magnitude,
)
from unspool.models.weights.base import WeightSource

_MODEL_TYPES = {**{name: name for name in FAMILIES}, "gemma3_text": "gemma3"}
_ACTIVATIONS: dict[str, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",  # the same formula under an older name
}
_FULL, _WINDOWED = "full_attention", "sliding_attention"

# What the family's own configuration class fills in when config.json leaves a size out; Gemma 3's
# multimodal folders do so in their text_config.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "mistral": {"sliding_window": 4096},
    "gemma2": {"sliding_window": 4096, "head_dim": 256, "query_pre_attn_scalar": 256},
    "gemma3": {
        "sliding_window": 4096,
        "head_dim": 256,
        "query_pre_attn_scalar": 256,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "vocab_size": 262_208,
        "max_position_embeddings": 131_072,
        "rope_theta": 1_000_000.0,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
    },
    "qwen3": {"head_dim": 128},
}
# Keys that change what is computed unless they hold one of these values.
_NEUTRAL: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("num_local_experts", (0, 1)),
    ("num_experts", (0, 1)),
    ("use_bidirectional_attention", (False,)),
    ("is_encoder_decoder", (False,)),
    ("alibi", (False,)),
)


def read_hf_config(source: WeightSource) -> ModelConfig:
    """See `unspool.models.config.read_config`."""
    path = source.path / "config.json"
    outer = Fields(path, source.metadata)
    model_type = outer.text("model_type")
    family_name = _MODEL_TYPES.get(model_type)
    if family_name is None:
        raise unsupported(path, f"model_type {model_type!r}", SUPPORTED)
    family = FAMILIES[family_name]
    _refuse_strangers(outer)
    text = outer.table("text_config") if model_type == "gemma3" and outer.has("text_config") else outer
    if text is not outer:
        _refuse_strangers(text)
    tied = text.flag("tie_word_embeddings", outer.flag("tie_word_embeddings", family.tied_by_default))
    filled = {**_DEFAULTS.get(family_name, {}), **text.values}
    return _read(Fields(path, filled, parent=text.parent), family, tied)


def _read(fields: Fields, family: Family, tied: bool) -> ModelConfig:
    width = fields.integer("hidden_size", 1, bounds.MAX_WIDTH)
    n_heads = fields.integer("num_attention_heads", 1, bounds.MAX_HEADS)
    n_layers = fields.integer("num_hidden_layers", 1, bounds.MAX_LAYERS)
    context_length = fields.integer("max_position_embeddings", 1, bounds.MAX_CONTEXT)
    if fields.has("head_dim"):
        head_dim = fields.integer("head_dim", 2, bounds.MAX_HEAD_DIM)
    else:
        head_dim = head_size(fields.path, width, n_heads, fields.name("num_attention_heads"))
    query_scalar = fields.number("query_pre_attn_scalar", 1e-3, bounds.MAX_FACTOR, default=head_dim)
    window, is_windowed = _window_layers(fields, family, n_layers)
    return ModelConfig(
        path=fields.path,
        family=family,
        n_layers=n_layers,
        width=width,
        ffn_width=fields.integer("intermediate_size", 1, bounds.MAX_WIDTH),
        n_heads=n_heads,
        n_kv_heads=fields.integer("num_key_value_heads", 1, n_heads, default=n_heads),
        head_dim=head_dim,
        vocab_size=fields.integer("vocab_size", 1, bounds.MAX_VOCAB),
        context_length=context_length,
        norm_eps=fields.number("rms_norm_eps", 0.0, 0.1, default=1e-6),
        activation=_activation(fields, family),
        attention_scale=1.0 / math.sqrt(query_scalar),
        attention_softcap=_softcap(fields, "attn_logit_softcapping", family.attention_softcap),
        logit_softcap=_softcap(fields, "final_logit_softcapping", family.logit_softcap),
        tied_output=tied,
        required_biases=_required_biases(fields, family),
        windows=effective_windows(window, is_windowed, context_length),
        rotaries=_rotaries(fields, family, head_dim, is_windowed, context_length),
        rope_style="half",
    )


def _refuse_strangers(fields: Fields) -> None:
    if fields.has("quantization_config"):
        method = fields.table("quantization_config").raw("quant_method", "unknown")
        raise unsupported(
            fields.path, f"weights packed by {method!r}", "unquantized safetensors, or a GGUF file"
        )
    for key, neutral in _NEUTRAL:
        if fields.has(key) and fields.raw(key) not in neutral:
            raise unsupported(fields.path, f"{fields.name(key)} = {fields.raw(key)!r}")
    names = fields.raw("architectures", [])
    for name in names if isinstance(names, list) else [names]:
        if not str(name).endswith(("ForCausalLM", "ForConditionalGeneration")):
            raise unsupported(
                fields.path, f"architecture {name!r}, which does not predict a next token,", SUPPORTED
            )


def _activation(fields: Fields, family: Family) -> Activation:
    key = family.hf_activation_key
    if not fields.has(key):
        return family.activation
    name = fields.text(key)
    if name not in _ACTIVATIONS:
        raise unsupported(fields.path, f"{fields.name(key)} {name!r}", ", ".join(_ACTIVATIONS))
    return _ACTIVATIONS[name]


def _required_biases(fields: Fields, family: Family) -> frozenset[str]:
    """The projections, by the stem of their tensors' names, that must come with a bias."""
    stems: set[str] = set()
    if family.qkv_bias or fields.flag("attention_bias", False):
        stems |= {"attn_q", "attn_k", "attn_v"}
    if fields.flag("attention_bias", False):
        stems |= {"attn_output"}
    if fields.flag("mlp_bias", False):
        stems |= {"ffn_gate", "ffn_up", "ffn_down"}
    return frozenset(stems)


def _softcap(fields: Fields, key: str, default: float | None) -> float | None:
    """A key that is there and null turns the cap off; one that is missing leaves the family's."""
    return fields.optional_number(key, 0.0, bounds.MAX_FACTOR) if key in fields.values else default


def _window_layers(fields: Fields, family: Family, n_layers: int) -> tuple[int, tuple[bool, ...]]:
    """The window (0 when there is none) and which layers have it."""
    default = 4096 if family.upper_windows else 0
    window = fields.integer("sliding_window", 0, bounds.MAX_CONTEXT, default=default)
    if family.upper_windows and not fields.flag("use_sliding_window", False):
        window = 0
    if fields.has("layer_types"):
        kinds = fields.sequence("layer_types", n_layers)
        for kind in kinds:
            if kind not in (_FULL, _WINDOWED):
                raise unsupported(
                    fields.path, f"{fields.name('layer_types')} entry {kind!r}", f"{_FULL}, {_WINDOWED}"
                )
        return window, tuple(kind == _WINDOWED for kind in kinds)
    if family.upper_windows:
        first = fields.integer("max_window_layers", 0, bounds.MAX_LAYERS, default=28)
        return window, tuple(window > 0 and layer >= first for layer in range(n_layers))
    if family.window_period is None:
        return window, (window > 0,) * n_layers
    period = family.window_period
    if family.name == "gemma3":
        period = fields.integer("sliding_window_pattern", 1, bounds.MAX_LAYERS, default=period)
    return window, tuple((layer + 1) % period != 0 for layer in range(n_layers))


def _rotaries(
    fields: Fields, family: Family, head_dim: int, is_windowed: tuple[bool, ...], context_length: int
) -> tuple[Rotary, ...]:
    """The rotation of each layer, from one table for all of them or one for each kind of layer."""
    table = fields.table("rope_parameters" if fields.has("rope_parameters") else "rope_scaling")
    by_kind = table.has(_FULL) or table.has(_WINDOWED)
    far_table = table.table(_FULL) if by_kind else table
    far = _rotary(fields, far_table, "rope_theta", 10_000.0, family, head_dim, context_length)
    if by_kind:
        near_table = table.table(_WINDOWED)
    elif family.local_rope_base is None:
        return (far,) * len(is_windowed)
    else:  # the scaling of a flat table stretches the layers that see far, and only those
        near_table = Fields(fields.path, {})
    near_base = 10_000.0 if family.local_rope_base is None else family.local_rope_base
    near = _rotary(fields, near_table, "rope_local_base_freq", near_base, family, head_dim, context_length)
    return tuple(near if windowed else far for windowed in is_windowed)


def _rotary(
    fields: Fields,
    table: Fields,
    base_key: str,
    default_base: float,
    family: Family,
    head_dim: int,
    context_length: int,
) -> Rotary:
    """One rotation; its base sits in `table`, or beside it under base_key."""
    outer_base = fields.number(base_key, 1.0001, bounds.MAX_ROPE_BASE, default=default_base)
    base = table.number("rope_theta", 1.0001, bounds.MAX_ROPE_BASE, default=outer_base)
    outer_part = fields.number("partial_rotary_factor", 0.0, 1.0, default=1.0)
    part = table.number("partial_rotary_factor", 0.0, 1.0, default=outer_part)
    n_rotated = int(head_dim * part)
    if n_rotated < 2 or n_rotated % 2:
        raise table.fail(
            "partial_rotary_factor", f"{part!r} of {head_dim} is {n_rotated} values, not a number of pairs"
        )
    return rotary(base, n_rotated, _scaling(fields, table, family, context_length))


def _scaling(fields: Fields, table: Fields, family: Family, context_length: int) -> Scaling | None:
    kind = table.text("rope_type", default=table.text("type", default="default"))
    if kind == "default":
        if table.has("mrope_section"):
            raise unsupported(fields.path, f"{table.name('mrope_section')}")
        return None
    if family.name == "phi3" and kind in ("su", "yarn"):
        kind = "longrope"  # what phi3 files of 2024 mean by these names
    if kind not in ("linear", "llama3", "yarn"):
        raise unsupported(fields.path, f"rope scaling {kind!r}", "default, linear, llama3, yarn")
    if kind == "linear":
        return LinearScaling(table.number("factor", 1e-6, bounds.MAX_FACTOR))
    original = table.integer(
        "original_max_position_embeddings", 1, bounds.MAX_CONTEXT, default=context_length
    )
    factor = table.number("factor", 1.0, bounds.MAX_FACTOR, default=max(1.0, context_length / original))
    if kind == "llama3":
        low = table.number("low_freq_factor", 1e-6, bounds.MAX_FACTOR)
        high = table.number("high_freq_factor", low, bounds.MAX_FACTOR)
        return Llama3Scaling(factor, low, high, original)
    beta_slow = table.optional_number("beta_slow", 1e-3, bounds.MAX_FACTOR) or 1.0
    beta_fast = table.optional_number("beta_fast", beta_slow, bounds.MAX_FACTOR) or 32.0
    return YarnScaling(
        factor, original, beta_fast, beta_slow, _yarn_magnitude(table, factor), table.flag("truncate", True)
    )


def _yarn_magnitude(table: Fields, factor: float) -> float:
    if table.has("attention_factor"):
        return table.number("attention_factor", 0.0, bounds.MAX_FACTOR)
    numerator = table.optional_number("mscale", 0.0, bounds.MAX_FACTOR)
    denominator = table.optional_number("mscale_all_dim", 0.0, bounds.MAX_FACTOR)
    if numerator is not None and denominator is not None:
        return yarn_magnitude(factor, numerator) / yarn_magnitude(factor, denominator)
    return yarn_magnitude(factor)
