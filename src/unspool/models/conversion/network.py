"""What a GGUF file says about a network, from the configuration of a Hugging Face folder.

Of windows, scales and caps only what readers of GGUF would not assume by themselves is written: one that
knows fewer keys than this one then still reads the usual models right.
"""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import numpy as np

from unspool.errors import brief
from unspool.models.config_gguf import usual_attention_scale, usual_windows
from unspool.models.conversion.untold import untold
from unspool.models.model_config import ModelConfig
from unspool.models.rope import LinearScaling, Llama3Scaling, Rotary, YarnScaling, frequencies, yarn_magnitude
from unspool.models.weights.gguf_writer import Value
from unspool.types import F32

_NEAR = 1e-6  # relative: the format has fractions in float32


def architecture(config: ModelConfig) -> str:
    """The family's name in GGUF."""
    return "llama" if config.family.name == "mistral" else config.family.name


def network_values(config: ModelConfig) -> dict[str, Value]:
    """Metadata keys with their values, without the architecture's prefix."""
    far = _far(config)
    values: dict[str, Value] = {
        "block_count": config.n_layers,
        "context_length": config.context_length,
        "embedding_length": config.width,
        "feed_forward_length": config.ffn_width,
        "vocab_size": config.vocab_size,
        "attention.head_count": config.n_heads,
        "attention.head_count_kv": config.n_kv_heads,
        "attention.key_length": config.head_dim,
        "attention.value_length": config.head_dim,
        "attention.layer_norm_rms_epsilon": config.norm_eps,
        "rope.dimension_count": 2 * len(far.inv_freq),
    }
    usual_scale = usual_attention_scale(
        config.family, config.width, config.n_heads, config.n_layers, config.head_dim
    )
    if not math.isclose(config.attention_scale, usual_scale, rel_tol=_NEAR):
        values["attention.scale"] = config.attention_scale
    caps = (
        ("attn_logit_softcapping", config.attention_softcap, config.family.attention_softcap),
        ("final_logit_softcapping", config.logit_softcap, config.family.logit_softcap),
    )
    for key, cap, usual_cap in caps:
        if cap is not None or usual_cap is not None:
            values[key] = cap or 0.0
    return values | _windows(config) | _rope(config, far)


def rope_factors(config: ModelConfig) -> F32 | None:
    """The divisors of each frequency (n/2,), where a tensor has to hold them."""
    rotary = _far(config)
    if not isinstance(rotary.scaling, Llama3Scaling) or rotary.base is None:
        return None
    plain = frequencies(rotary.base, 2 * len(rotary.inv_freq))
    factors: F32 = (plain / np.asarray(rotary.inv_freq)).astype("<f4")
    return factors


# Fields that differ by nature: where the model lies, names of families, what a file must hold, the order of
# rows, and rotations, which are compared number by number.
_APART: Final = frozenset({"path", "family", "required_biases", "rope_style", "rotaries"})


def check_same(read: ModelConfig, config: ModelConfig, path: Path) -> None:
    """UnsupportedModel where what is read back from the file's keys is another network."""
    file = path / "config.json"
    for each in fields(ModelConfig):
        own = getattr(config, each.name)
        if each.name not in _APART and not _alike(getattr(read, each.name), own):
            raise untold(file, f"{each.name} = {brief(own)}")
    for its, rotary in zip(read.rotaries, config.rotaries, strict=True):
        near = len(its.inv_freq) == len(rotary.inv_freq) and np.allclose(
            its.inv_freq, rotary.inv_freq, rtol=10 * _NEAR, atol=0.0
        )
        if not near or not _alike(its.magnitude, rotary.magnitude):
            how = "rotary positions" if rotary.scaling is None else type(rotary.scaling).__name__
            raise untold(file, f"{how} of base {rotary.base:g} with these settings")


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_NEAR)
    return bool(one == other)


def _sees_near(config: ModelConfig) -> tuple[bool, ...]:
    """Which layers have the window, even where none is shorter than the context: in some families these have
    a rotation of their own."""
    found = tuple(size is not None for size in config.windows)
    if not any(found) and config.family.local_rope_base is not None:
        return usual_windows(config.family, config.n_layers) or found
    return found


def _far(config: ModelConfig) -> Rotary:
    """The rotation of the layers that see everything; where there is none of these, of the first."""
    both = zip(config.rotaries, _sees_near(config), strict=True)
    return next((rotary for rotary, near in both if not near), config.rotaries[0])


def _windows(config: ModelConfig) -> dict[str, Value]:
    window, near = max((size for size in config.windows if size is not None), default=0), _sees_near(config)
    if window == 0:
        # Readers take a missing key for 4096 and 0 for a window of nothing; one of the context is none.
        needs_one = config.family.name == "gemma2" or any(near)
        return {"attention.sliding_window": config.context_length} if needs_one else {}
    values: dict[str, Value] = {"attention.sliding_window": window}
    if near != usual_windows(config.family, config.n_layers):
        values["attention.sliding_window_pattern"] = np.array(near)
    return values


def _rope(config: ModelConfig, far: Rotary) -> dict[str, Value]:
    assert far.base is not None
    values: dict[str, Value] = {"rope.freq_base": far.base}
    for rotary, near in zip(config.rotaries, _sees_near(config), strict=True):
        if near and config.family.local_rope_base is not None and rotary.base is not None:
            values["rope.freq_base_swa"] = rotary.base
    if isinstance(far.scaling, LinearScaling):
        return values | {"rope.scaling.type": "linear", "rope.scaling.factor": far.scaling.factor}
    if isinstance(far.scaling, YarnScaling):
        values |= {
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": far.scaling.factor,
            "rope.scaling.original_context_length": far.scaling.original_context_length,
            "rope.scaling.yarn_beta_fast": far.scaling.beta_fast,
            "rope.scaling.yarn_beta_slow": far.scaling.beta_slow,
        }
        stretch = far.magnitude / yarn_magnitude(far.scaling.factor)
        if not math.isclose(stretch, 1.0, rel_tol=_NEAR):
            values["rope.scaling.attn_factor"] = stretch
    return values
