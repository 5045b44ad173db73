"""A cache's shape from config.json, of models that this engine does not run; GGUF is in test_sizing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from unspool.errors import UnsupportedModel
from unspool.models.cache_shape import CacheShape
from unspool.models.shape_reader import read_shape


def source_of(config):
    named = {"model_type": "strange", "architectures": ["StrangeForCausalLM"], **config}
    return SimpleNamespace(path=Path("strange"), format="safetensors", metadata=named)


def test_latent_attention_is_one_vector_a_token():
    config = {
        "num_hidden_layers": 60,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "num_attention_heads": 128,
    }
    assert read_shape(source_of(config)) == (CacheShape.of_latent(60, 512, 64), False)


@pytest.mark.parametrize(
    ("config", "values"),
    [
        ({"num_key_value_heads": 2}, 2 * 2 * 32),
        ({}, 2 * 8 * 32),
        ({"num_key_value_heads": 1, "head_dim": 128}, 2 * 128),
    ],
)
def test_heads_are_read_from_the_common_fields(config, values):
    common = {"num_hidden_layers": 3, "num_attention_heads": 8, "hidden_size": 256}
    shape, runs_it = read_shape(source_of({**common, "max_position_embeddings": 4096, **config}))
    assert (shape.values, shape.context_length, runs_it) == ((values,) * 3, 4096, False)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"num_hidden_layers": 3},
        {"num_hidden_layers": 1 << 20, "kv_lora_rank": 512, "qk_rope_head_dim": 64},
        {"num_hidden_layers": True, "kv_lora_rank": 512, "qk_rope_head_dim": 64},
        {"num_hidden_layers": 3, "num_attention_heads": 8, "hidden_size": 256, "sliding_window": 64},
    ],
)
def test_what_says_too_little_is_refused_as_the_architecture_that_it_is(config):
    with pytest.raises(UnsupportedModel, match="strange"):
        read_shape(source_of(config))
