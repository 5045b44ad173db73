"""A model's configuration from the key-values of a GGUF file."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from unspool.errors import ModelFileError
from unspool.models import model_config as bounds
from unspool.models.config_fields import Fields
from unspool.models.families import FAMILIES, SUPPORTED, Family
from unspool.models.model_config import ModelConfig, effective_windows, head_size, unsupported
from unspool.models.rope import LinearScaling, Rotary, Scaling, YarnScaling, divided, rotary, yarn_magnitude
from unspool.models.weights.base import Encoding, WeightSource

# Keys whose presence with any other value changes what is computed in a way that no op here does.
_NEUTRAL: tuple[tuple[str, Any], ...] = (
    ("expert_count", 0),
    ("attention.clamp_kqv", 0),
    ("attention.max_alibi_bias", 0),
    ("attention.causal", True),
    ("attention.temperature_scale", 0),
    ("use_parallel_residual", False),
    ("logit_scale", 1),
    ("residual_scale", 1),
    ("embedding_scale", 1),
    ("pooling_type", 0),
    ("rope.scaling.yarn_ext_factor", 1),
)

# Layer counts of the one size of each Gemma that scales queries by width / heads instead of the
# head's size; the file itself does not say which it was trained with.
_GEMMA_27B_LAYERS = {"gemma2": 46, "gemma3": 62}


def read_gguf_config(source: WeightSource) -> ModelConfig:
    """See `unspool.models.config.read_config`."""
    path = source.path
    name = Fields(path, source.metadata).text("general.architecture")
    family = FAMILIES.get(name)
    if family is None or name == "mistral":  # GGUF stores mistral as llama
        raise unsupported(path, f"architecture {name!r}", SUPPORTED)
    fields = Fields(path, source.metadata, namespace=f"{name}.")
    _refuse_strangers(fields)

    width = fields.integer("embedding_length", 1, bounds.MAX_WIDTH)
    n_heads = fields.integer("attention.head_count", 1, bounds.MAX_HEADS)
    n_layers = fields.integer("block_count", 1, bounds.MAX_LAYERS)
    context_length = fields.integer("context_length", 1, bounds.MAX_CONTEXT)
    if fields.has("attention.key_length"):
        head_dim = fields.integer("attention.key_length", 2, bounds.MAX_HEAD_DIM)
    else:
        head_dim = head_size(path, width, n_heads, fields.name("attention.head_count"))
    value_dim = fields.integer("attention.value_length", 1, bounds.MAX_HEAD_DIM, default=head_dim)
    if value_dim != head_dim:
        raise unsupported(path, f"heads with keys of {head_dim} values and values of {value_dim}")
    window, is_windowed = _window_layers(fields, family, n_layers)
    return ModelConfig(
        path=path,
        family=family,
        n_layers=n_layers,
        width=width,
        ffn_width=fields.integer("feed_forward_length", 1, bounds.MAX_WIDTH),
        n_heads=n_heads,
        n_kv_heads=fields.integer("attention.head_count_kv", 1, n_heads, default=n_heads),
        head_dim=head_dim,
        vocab_size=_vocab_size(source, fields),
        context_length=context_length,
        norm_eps=fields.number("attention.layer_norm_rms_epsilon", 0.0, 0.1),
        activation=family.activation,
        attention_scale=_attention_scale(fields, family, width, n_heads, n_layers, head_dim),
        attention_softcap=_softcap(fields, "attn_logit_softcapping", family.attention_softcap),
        logit_softcap=_softcap(fields, "final_logit_softcapping", family.logit_softcap),
        tied_output="output.weight" not in source,
        required_biases=frozenset({"attn_q", "attn_k", "attn_v"} if family.qkv_bias else ()),
        windows=effective_windows(window, is_windowed, context_length),
        rotaries=_rotaries(source, fields, family, head_dim, is_windowed, context_length),
        rope_style=family.gguf_rope_style,
    )


def _refuse_strangers(fields: Fields) -> None:
    for key, neutral in _NEUTRAL:
        if fields.has(key) and np.any(np.asarray(fields.raw(key)) != neutral):
            raise unsupported(fields.path, f"{fields.name(key)} = {fields.raw(key)!r}")


def _vocab_size(source: WeightSource, fields: Fields) -> int:
    shape = source.tensor("token_embd.weight").shape
    if len(shape) != 2 or not 1 <= shape[0] <= bounds.MAX_VOCAB:
        raise ModelFileError(source.path, "token_embd.weight", f"shape {shape} is not (vocabulary, width)")
    stated = fields.integer("vocab_size", 1, bounds.MAX_VOCAB, default=shape[0])
    if stated != shape[0]:
        raise fields.fail("vocab_size", f"{stated}, but token_embd.weight has {shape[0]} rows")
    return shape[0]


def _attention_scale(
    fields: Fields, family: Family, width: int, n_heads: int, n_layers: int, head_dim: int
) -> float:
    stated = fields.optional_number("attention.scale", 0.0, bounds.MAX_FACTOR)
    return usual_attention_scale(family, width, n_heads, n_layers, head_dim) if stated is None else stated


def usual_attention_scale(family: Family, width: int, n_heads: int, n_layers: int, head_dim: int) -> float:
    """Where the file does not say."""
    if _GEMMA_27B_LAYERS.get(family.name) == n_layers:
        return 1.0 / math.sqrt(width // n_heads)
    return 1.0 / math.sqrt(head_dim)


def _softcap(fields: Fields, key: str, default: float | None) -> float | None:
    return fields.optional_number(key, 0.0, bounds.MAX_FACTOR) if fields.has(key) else default


def _window_layers(fields: Fields, family: Family, n_layers: int) -> tuple[int, tuple[bool, ...]]:
    """The window (0 when there is none) and which layers have it: by the pattern key or the family."""
    default = 4096 if family.name == "gemma2" else 0  # early gemma2 files leave it out
    key, pattern = "attention.sliding_window", "attention.sliding_window_pattern"
    window = fields.integer(key, 0, bounds.MAX_CONTEXT, default=default)
    if window == 0:
        return 0, (False,) * n_layers
    if fields.has(pattern) and isinstance(fields.raw(pattern), list | tuple | np.ndarray):
        return window, tuple(bool(windowed) for windowed in fields.sequence(pattern, n_layers))
    if fields.has(pattern):
        return window, _periodic(fields.integer(pattern, 1, bounds.MAX_LAYERS), n_layers)
    usual = usual_windows(family, n_layers)
    if usual is None:
        raise unsupported(fields.path, f"{fields.name(key)} = {window} without {fields.name(pattern)}")
    return window, usual


def usual_windows(family: Family, n_layers: int) -> tuple[bool, ...] | None:
    """Which layers have the window where the file does not say; None where nothing is usual, for GGUF has no
    key that says from which layer on."""
    if family.upper_windows:
        return None
    return (True,) * n_layers if family.window_period is None else _periodic(family.window_period, n_layers)


def _periodic(period: int, n_layers: int) -> tuple[bool, ...]:
    return tuple((layer + 1) % period != 0 for layer in range(n_layers))


def _rotaries(
    source: WeightSource,
    fields: Fields,
    family: Family,
    head_dim: int,
    is_windowed: tuple[bool, ...],
    context_length: int,
) -> tuple[Rotary, ...]:
    n_rotated = fields.integer("rope.dimension_count", 2, head_dim, default=head_dim)
    if n_rotated % 2:
        raise fields.fail("rope.dimension_count", f"{n_rotated} is odd; rotary positions need pairs")
    base = fields.number("rope.freq_base", 1.0001, bounds.MAX_ROPE_BASE, default=10_000.0)
    everywhere = rotary(base, n_rotated, _scaling(source, fields, context_length))
    if "rope_freqs.weight" in source:
        everywhere = divided(everywhere, _rope_factors(source, family, n_rotated))
    if family.local_rope_base is None:
        return (everywhere,) * len(is_windowed)
    # The scaling stretches the layers that see far; those with a window keep their own base.
    local_base = fields.number(
        "rope.freq_base_swa", 1.0001, bounds.MAX_ROPE_BASE, default=family.local_rope_base
    )
    local = rotary(local_base, n_rotated)
    return tuple(local if windowed else everywhere for windowed in is_windowed)


def _scaling(source: WeightSource, fields: Fields, context_length: int) -> Scaling | None:
    for name in ("rope_factors_long.weight", "rope_factors_short.weight"):
        if name in source:
            raise unsupported(source.path, f"rope scaling 'longrope' ({name})", "linear, llama3, yarn")
    if fields.has("rope.scaling.factor"):
        factor = fields.number("rope.scaling.factor", 0.0, bounds.MAX_FACTOR)
    else:  # the key of files from 2023
        factor = fields.number("rope.scale_linear", 0.0, bounds.MAX_FACTOR, default=0.0)
    kind = fields.text("rope.scaling.type", default="linear")
    if kind not in ("none", "linear", "yarn"):
        raise unsupported(
            source.path, f"{fields.name('rope.scaling.type')} = {kind!r}", "none, linear, yarn, rope_freqs"
        )
    attention_factor = fields.number("rope.scaling.attn_factor", 0.0, bounds.MAX_FACTOR, default=1.0)
    if kind != "yarn":
        if attention_factor != 1.0:
            raise unsupported(source.path, f"{fields.name('rope.scaling.attn_factor')} without yarn")
        return None if kind == "none" or factor in (0.0, 1.0) else LinearScaling(factor)
    if factor < 1.0:
        raise fields.fail("rope.scaling.factor", f"yarn needs a factor of at least 1, not {factor!r}")
    original = fields.integer(
        "rope.scaling.original_context_length", 1, bounds.MAX_CONTEXT, default=context_length
    )
    magnitude = fields.optional_number("rope.scaling.yarn_attn_factor", 0.0, bounds.MAX_FACTOR)
    if magnitude is None:
        multiplier = fields.number("rope.scaling.yarn_log_multiplier", 0.0, bounds.MAX_FACTOR, default=0.0)
        magnitude = yarn_magnitude(factor) / (yarn_magnitude(factor, multiplier) if multiplier else 1.0)
    return YarnScaling(
        factor,
        original,
        beta_fast=fields.number("rope.scaling.yarn_beta_fast", 1e-3, bounds.MAX_FACTOR, default=32.0),
        beta_slow=fields.number("rope.scaling.yarn_beta_slow", 1e-3, bounds.MAX_FACTOR, default=1.0),
        magnitude=magnitude * attention_factor,
    )


def _rope_factors(source: WeightSource, family: Family, n_rotated: int) -> Any:
    """The divisors of each frequency (llama 3.1 and later): a small F32 tensor."""
    tensor = source.tensor("rope_freqs.weight")
    if family.gguf_rope_style != "interleaved":
        raise unsupported(source.path, f"rope_freqs.weight in a model of architecture {family.name!r}")
    if tensor.encoding is not Encoding.F32 or tensor.shape != (n_rotated // 2,):
        raise ModelFileError(
            source.path,
            "rope_freqs.weight",
            f"{tensor.encoding.label} of shape {tensor.shape}, expected F32 of ({n_rotated // 2},)",
        )
    factors = tensor.data.view(np.float32)
    if not np.all(np.isfinite(factors) & (factors > 0)):
        raise ModelFileError(source.path, "rope_freqs.weight", "holds a factor that is not positive")
    return factors
