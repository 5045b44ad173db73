"""The shape of a network, read once from the weights file and checked before anything is computed."""

from __future__ import annotations

from unspool.errors import ModelFileError
from unspool.models.model_config import ModelConfig
from unspool.models.weights.base import WeightSource

__all__ = ["ModelConfig", "read_config"]


def read_config(source: WeightSource) -> ModelConfig:
    """The configuration of an open model, whatever its format.

    Raises ModelFileError naming file and field for a value that is missing or makes no sense, and
    UnsupportedModel naming what it is for anything this engine would compute wrongly.
    """
    if source.format == "gguf":
        from unspool.models.config_gguf import read_gguf_config

        config = read_gguf_config(source)
    else:
        from unspool.models.config_hf import read_hf_config

        config = read_hf_config(source)
    _check(config)
    return config


def _check(config: ModelConfig) -> None:
    """What must hold between values that are each in range."""
    if config.n_heads % config.n_kv_heads:
        raise ModelFileError(
            config.path,
            "kv heads",
            f"{config.n_heads} query heads do not divide into {config.n_kv_heads} kv heads",
        )
    if config.head_dim % 2:
        raise ModelFileError(
            config.path, "head size", f"{config.head_dim} is odd; rotary positions need pairs of values"
        )
    assert all(0 < 2 * len(rotary.inv_freq) <= config.head_dim for rotary in config.rotaries)
