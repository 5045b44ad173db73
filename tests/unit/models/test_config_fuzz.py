"""Whatever the metadata holds, reading it ends in a configuration or in one of our own errors."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import TINY_SPECS, ArraySource, TinySpec, tiny_source

from unspool.errors import ModelFileError, UnsupportedModel
from unspool.models.architectures import build_graph
from unspool.models.config import read_config
from unspool.models.families import FAMILIES

SOURCES = [tiny_source(spec) for spec in TINY_SPECS]
HF_KEYS = [
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "vocab_size",
    "max_position_embeddings",
    "rms_norm_eps",
    "head_dim",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "sliding_window",
    "layer_types",
    "use_sliding_window",
    "max_window_layers",
    "tie_word_embeddings",
    "attention_bias",
    "mlp_bias",
    "hidden_act",
    "hidden_activation",
    "partial_rotary_factor",
    "query_pre_attn_scalar",
    "architectures",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "text_config",
    "quantization_config",
    "model_type",
    "sliding_window_pattern",
    "rope_local_base_freq",
    "num_local_experts",
]
ROPE_KEYS = [
    "rope_type",
    "type",
    "factor",
    "original_max_position_embeddings",
    "low_freq_factor",
    "high_freq_factor",
    "beta_fast",
    "beta_slow",
    "attention_factor",
    "mscale",
    "mscale_all_dim",
    "truncate",
    "rope_theta",
    "partial_rotary_factor",
    "full_attention",
    "sliding_attention",
    "mrope_section",
]
KINDS = ["llama3", "linear", "yarn", "default", "su", "", "silu", "full_attention", "sliding_attention"]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 40),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.floats(0.25, 16),
    st.sampled_from(KINDS),
    st.text(max_size=5),
)
lists = st.lists(scalars, max_size=4)
ropes = st.dictionaries(st.sampled_from(ROPE_KEYS), scalars | lists, max_size=6)
values = st.one_of(
    scalars, lists, ropes, st.dictionaries(st.sampled_from(ROPE_KEYS), scalars | ropes, max_size=4)
)


def read_or_refuse(source: ArraySource) -> None:
    try:
        build_graph(read_config(source), source)
        return
    except (ModelFileError, UnsupportedModel) as error:
        message = str(error)
    assert message.startswith(str(source.path))
    assert "\n" not in message


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_gguf_metadata_of_any_values_is_read_or_refused(data):
    source = data.draw(st.sampled_from(SOURCES))
    extra = ["rope.scaling.type", "rope.scaling.factor", "attention.sliding_window_pattern", "expert_count"]
    prefix = source.metadata["general.architecture"]
    keys = sorted({*source.metadata, *(f"{prefix}.{key}" for key in extra)})
    changes = data.draw(st.dictionaries(st.sampled_from(keys), values, min_size=1, max_size=3))
    read_or_refuse(source.with_metadata(**changes))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([*FAMILIES, "gemma3_text"]), st.data())
def test_a_config_json_of_any_values_is_read_or_refused(model_type, data):
    sizes = {
        "model_type": model_type,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 96,
        "max_position_embeddings": 128,
        "head_dim": 16,
        "tie_word_embeddings": True,
    }
    changes = data.draw(st.dictionaries(st.sampled_from(HF_KEYS), values, max_size=4))
    family = model_type.removesuffix("_text").replace("mistral", "llama")
    arrays = tiny_source(TinySpec(family)).arrays
    read_or_refuse(ArraySource({**sizes, **changes}, arrays, "safetensors", Path("folder")))
