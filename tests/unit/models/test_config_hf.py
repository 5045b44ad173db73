"""The configuration out of config.json: old and new spellings, defaults, and refusals by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tiny_models import ArraySource

from unspool.errors import ModelFileError, UnsupportedModel
from unspool.models.config import read_config
from unspool.models.rope import LinearScaling, Llama3Scaling, YarnScaling, rotary

SMALL = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 64,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def config_of(model_type="llama", **changes):
    values = {"model_type": model_type, **SMALL, **changes}
    metadata = {key: value for key, value in values.items() if value is not ...}
    return read_config(ArraySource(metadata, format="safetensors", path=Path("folder")))


def test_sizes_are_read():
    config = config_of()
    assert (config.n_layers, config.width, config.ffn_width, config.vocab_size) == (4, 32, 48, 64)
    assert (config.n_heads, config.n_kv_heads, config.head_dim) == (4, 2, 8)
    assert config.rope_style == "half"
    assert config.rotaries == (rotary(10_000.0, 8),) * 4
    assert not config.tied_output


def test_sizes_that_follow_from_others_may_be_missing_or_null():
    for missing in (..., None):
        config = config_of(num_key_value_heads=missing, head_dim=missing, rms_norm_eps=missing)
        assert (config.n_kv_heads, config.head_dim, config.norm_eps) == (4, 8, 1e-6)


@pytest.mark.parametrize(
    "key",
    [
        "model_type",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "vocab_size",
        "max_position_embeddings",
    ],
)
def test_a_missing_size_is_named(key):
    with pytest.raises(ModelFileError, match=rf"^folder/config\.json: {key}: is missing$"):
        config_of(**{key: ...} if key != "model_type" else {"model_type": ...})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_size", -1),
        ("hidden_size", 34),
        ("num_hidden_layers", 10**9),
        ("num_attention_heads", True),
        ("num_key_value_heads", 3),
        ("num_key_value_heads", 8),
        ("head_dim", 9),
        ("head_dim", 1),
        ("vocab_size", 2**40),
        ("rms_norm_eps", "small"),
        ("rope_theta", 1.0),
        ("rope_theta", float("nan")),
        ("tie_word_embeddings", "yes"),
        ("attention_bias", 1),
        ("sliding_window", -1),
        ("layer_types", ["full_attention"]),
        ("layer_types", "full_attention"),
        ("partial_rotary_factor", 0.1),
        ("partial_rotary_factor", 2.0),
        ("rope_scaling", [4.0]),
        ("rope_scaling", {"rope_type": "linear"}),
        ("rope_scaling", {"rope_type": "linear", "factor": 0}),
        ("rope_scaling", {**LLAMA3, "high_freq_factor": 0.5}),
        ("rope_scaling", {**LLAMA3, "low_freq_factor": None}),
        ("rope_scaling", {**YARN, "factor": 0.5}),
        ("rope_scaling", {**YARN, "beta_fast": 0.5}),
        ("rope_scaling", {**YARN, "original_max_position_embeddings": 0}),
    ],
)
def test_an_absurd_value_is_refused_in_the_name_of_file_and_field(key, value):
    with pytest.raises(ModelFileError) as refusal:
        config_of(**{key: value})
    assert str(refusal.value).startswith("folder/config.json: ")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("model_type", ["mamba", "mixtral", "qwen3_moe", "llama4_text", "gemma3n", ""])
def test_an_unknown_model_type_is_refused_with_the_list_of_supported_ones(model_type):
    with pytest.raises(UnsupportedModel, match=f"model_type '{model_type}'.*llama, mistral, .*phi3"):
        config_of(model_type)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"hidden_act": "relu"}, "hidden_act 'relu'"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, "rope scaling 'dynamic'"),
        ({"rope_scaling": {"type": "longrope", "long_factor": []}}, "rope scaling 'longrope'"),
        ({"rope_scaling": {"type": "default", "mrope_section": [1]}}, "rope_scaling.mrope_section"),
        ({"quantization_config": {"quant_method": "gptq"}}, "weights packed by 'gptq'"),
        ({"num_local_experts": 8}, "num_local_experts = 8"),
        ({"use_bidirectional_attention": True}, "use_bidirectional_attention = True"),
        ({"layer_types": ["full_attention", "linear_attention"] * 2}, "layer_types entry 'linear_attention'"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "'LlamaForSequenceClassification'"),
    ],
)
def test_what_would_be_computed_wrongly_is_refused_by_name(changes, name):
    with pytest.raises(UnsupportedModel) as refusal:
        config_of(**changes)
    assert str(refusal.value).startswith("folder/config.json: ")
    assert name in str(refusal.value)


def test_phi3_files_that_say_su_or_yarn_mean_longrope():
    for kind in ("su", "yarn"):
        with pytest.raises(UnsupportedModel, match="rope scaling 'longrope'"):
            config_of("phi3", rope_scaling={"type": kind, "long_factor": [], "short_factor": []})


@pytest.mark.parametrize(
    ("settings", "scaling"),
    [
        ({"rope_type": "default"}, None),
        ({"rope_type": "linear", "factor": 4.0}, LinearScaling(4.0)),
        (LLAMA3, Llama3Scaling(8.0, 1.0, 4.0, 64)),
        (YARN, YarnScaling(4.0, 32)),
        ({**YARN, "factor": None}, YarnScaling(4.0, 32)),
        ({**YARN, "beta_fast": 8, "beta_slow": 2}, YarnScaling(4.0, 32, 8.0, 2.0)),
        ({**YARN, "attention_factor": 1.5}, YarnScaling(4.0, 32, magnitude=1.5)),
        ({**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}, YarnScaling(4.0, 32, magnitude=1.0)),
        ({**YARN, "truncate": False}, YarnScaling(4.0, 32, truncate=False)),
    ],
    ids=str,
)
def test_rope_settings_are_read_alike_in_the_old_and_the_new_spelling(settings, scaling):
    expected = (rotary(500.0, 8, scaling),) * 4
    old = {("type" if key == "rope_type" else key): value for key, value in settings.items()}
    assert config_of(rope_theta=500.0, rope_scaling=old).rotaries == expected
    assert config_of(rope_parameters={**settings, "rope_theta": 500.0}).rotaries == expected


def test_only_a_part_of_each_head_may_rotate():
    assert config_of("phi3", partial_rotary_factor=0.5).rotaries[0] == rotary(10_000.0, 4)
    inside = {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.5}
    assert config_of("phi3", rope_parameters=inside).rotaries[0] == rotary(10_000.0, 4)


@pytest.mark.parametrize(
    ("model_type", "changes", "expected"),
    [
        ("llama", {}, (None,) * 4),
        ("mistral", {"sliding_window": 7}, (7,) * 4),
        ("mistral", {"sliding_window": None}, (None,) * 4),
        ("mistral", {"max_position_embeddings": 8192}, (4096,) * 4),
        ("mistral", {"sliding_window": 128}, (None,) * 4),
        ("phi3", {"sliding_window": 9}, (9,) * 4),
        ("phi3", {}, (None,) * 4),
        ("qwen2", {"sliding_window": 7}, (None,) * 4),
        (
            "qwen2",
            {"sliding_window": 7, "use_sliding_window": True, "max_window_layers": 3},
            (None, None, None, 7),
        ),
        ("qwen3", {"sliding_window": 7, "use_sliding_window": True}, (None,) * 4),
        ("gemma2", {"sliding_window": 5}, (5, None, 5, None)),
        ("gemma3_text", {"sliding_window": 5}, (5,) * 4),
        ("gemma3_text", {"sliding_window": 5, "sliding_window_pattern": 3}, (5, 5, None, 5)),
        ("gemma3_text", {"sliding_window": None}, (None,) * 4),
        (
            "gemma3_text",
            {"sliding_window": 5, "layer_types": ["full_attention", "sliding_attention"] * 2},
            (None, 5, None, 5),
        ),
    ],
)
def test_windows_fall_on_the_layers_of_the_family(model_type, changes, expected):
    assert config_of(model_type, **changes).windows == expected


def test_gemma3_has_two_rope_bases_in_either_spelling():
    far, local = rotary(1e6, 256, LinearScaling(8.0)), rotary(10_000.0, 256)
    layer_types = ["sliding_attention", "full_attention"] * 2
    scaling = {"rope_type": "linear", "factor": 8.0}
    old = config_of("gemma3_text", layer_types=layer_types, rope_scaling=scaling)
    new = config_of(
        "gemma3_text",
        layer_types=layer_types,
        rope_parameters={
            "full_attention": {**scaling, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
        },
    )
    assert old.rotaries == new.rotaries == (local, far, local, far)
    other = config_of("gemma3_text", layer_types=layer_types, rope_local_base_freq=500.0, rope_theta=2e6)
    assert other.rotaries == (rotary(500.0, 256), rotary(2e6, 256)) * 2


def test_a_multimodal_gemma3_folder_is_read_through_its_text_config():
    text = {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024}
    metadata = {
        "model_type": "gemma3",
        "architectures": ["Gemma3ForConditionalGeneration"],
        "text_config": {
            "model_type": "gemma3_text",
            **text,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        },
    }
    config = read_config(ArraySource(metadata, format="safetensors"))
    assert config.family.name == "gemma3"
    assert (config.n_heads, config.n_kv_heads, config.head_dim) == (8, 4, 256)
    assert (config.vocab_size, config.context_length) == (262_208, 131_072)
    assert config.windows[:6] == (1024,) * 5 + (None,)
    assert config.rotaries[5] == rotary(1e6, 256, LinearScaling(8.0))
    assert config.tied_output
    metadata["text_config"]["hidden_size"] = -1
    with pytest.raises(ModelFileError, match=r"text_config\.hidden_size: -1 is out of range"):
        read_config(ArraySource(metadata, format="safetensors"))


def test_gemma_reads_its_own_activation_scale_and_caps():
    config = config_of("gemma2", hidden_act="gelu", query_pre_attn_scalar=64)
    assert config.activation == "gelu_tanh"  # hidden_act is an unused leftover in Gemma's files
    assert config.attention_scale == 0.125
    assert (config.attention_softcap, config.logit_softcap) == (50.0, 30.0)
    off = config_of("gemma2", attn_logit_softcapping=None, final_logit_softcapping=None)
    assert (off.attention_softcap, off.logit_softcap) == (None, None)
    capped = config_of("gemma3_text", final_logit_softcapping=4.0)
    assert (capped.attention_softcap, capped.logit_softcap) == (None, 4.0)
    with pytest.raises(UnsupportedModel, match="hidden_activation 'gelu'"):
        config_of("gemma2", hidden_activation="gelu")


@pytest.mark.parametrize(
    ("model_type", "changes", "expected"),
    [
        ("llama", {}, set()),
        ("llama", {"attention_bias": True}, {"attn_q", "attn_k", "attn_v", "attn_output"}),
        ("llama", {"mlp_bias": True}, {"ffn_gate", "ffn_up", "ffn_down"}),
        ("qwen2", {}, {"attn_q", "attn_k", "attn_v"}),
    ],
)
def test_biases_that_must_be_there_are_known(model_type, changes, expected):
    assert config_of(model_type, **changes).required_biases == expected


@pytest.mark.parametrize(("model_type", "tied"), [("llama", False), ("gemma2", True), ("phi3", False)])
def test_the_output_is_tied_as_the_file_says_or_the_family_does(model_type, tied):
    assert config_of(model_type).tied_output is tied
    assert config_of(model_type, tie_word_embeddings=not tied).tied_output is not tied


def test_errors_name_config_json_inside_a_folder(tmp_path):
    source = ArraySource({"model_type": "llama"}, format="safetensors", path=tmp_path)
    with pytest.raises(ModelFileError) as refusal:
        read_config(source)
    assert str(refusal.value).startswith(f"{tmp_path / 'config.json'}: hidden_size: is missing")


def test_numpy_never_leaks_into_a_configuration():
    config = config_of(hidden_size=np.int64(32), rms_norm_eps=np.float32(1e-5))
    assert type(config.width) is int
    assert type(config.norm_eps) is float
