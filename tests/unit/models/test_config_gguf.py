"""The configuration out of GGUF metadata: what is read, what is assumed, what is refused by name."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tiny_models import TINY_SPECS, TinySpec, tiny_source

from unspool.errors import ModelFileError, UnsupportedModel
from unspool.models.architectures import build_graph
from unspool.models.config import read_config
from unspool.models.rope import LinearScaling, YarnScaling, rotary


def config_of(spec: TinySpec, **changes):
    return read_config(tiny_source(spec).with_metadata(**changes))


def test_sizes_are_read():
    config = config_of(TinySpec())
    assert (config.n_layers, config.width, config.ffn_width) == (2, 64, 96)
    assert (config.n_heads, config.n_kv_heads, config.head_dim) == (4, 2, 16)
    assert (config.q_width, config.kv_width) == (64, 32)
    assert (config.vocab_size, config.context_length) == (96, 128)
    assert config.norm_eps == 1e-5
    assert config.attention_scale == 0.25
    assert config.windows == (None, None)
    assert config.embedding_scale == 1.0
    assert config.tied_output


def test_sizes_that_follow_from_others_may_be_missing():
    config = config_of(
        TinySpec(n_kv_heads=4),
        **{
            "llama.attention.head_count_kv": None,
            "llama.attention.key_length": None,
            "llama.attention.value_length": None,
            "llama.vocab_size": None,
            "llama.rope.freq_base": None,
        },
    )
    assert (config.n_kv_heads, config.head_dim, config.vocab_size) == (4, 16, 96)
    assert config.rotaries[0] == rotary(10_000.0, 16)


@pytest.mark.parametrize(
    "key",
    [
        "block_count",
        "context_length",
        "embedding_length",
        "feed_forward_length",
        "attention.head_count",
        "attention.layer_norm_rms_epsilon",
    ],
)
def test_a_missing_size_is_named(key):
    with pytest.raises(ModelFileError, match=rf"^llama\.gguf: llama\.{key}: is missing$"):
        config_of(TinySpec(), **{f"llama.{key}": None})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("block_count", 0),
        ("block_count", 2**31),
        ("context_length", -1),
        ("embedding_length", 2**40),
        ("feed_forward_length", "many"),
        ("feed_forward_length", [96, 128]),
        ("attention.head_count", 0),
        ("attention.head_count", 7),
        ("attention.head_count_kv", 5),
        ("attention.head_count_kv", 3),
        ("attention.key_length", 15),
        ("attention.layer_norm_rms_epsilon", float("nan")),
        ("attention.layer_norm_rms_epsilon", -1e-5),
        ("rope.freq_base", 0.0),
        ("rope.freq_base", float("inf")),
        ("rope.dimension_count", 18),
        ("rope.dimension_count", 7),
        ("rope.scaling.factor", -2.0),
        ("attention.sliding_window", -3),
        ("vocab_size", 97),
    ],
)
def test_an_absurd_value_is_refused_in_the_name_of_file_and_field(key, value):
    changes = {f"llama.{key}": value}
    if key == "attention.head_count" and value == 7:  # only counts when the head's size follows from it
        changes |= {"llama.attention.key_length": None, "llama.attention.value_length": None}
    if key == "attention.key_length":
        changes["llama.attention.value_length"] = value
    with pytest.raises(ModelFileError) as refusal:
        config_of(TinySpec(), **changes)
    assert str(refusal.value).startswith("llama.gguf: ")
    assert "\n" not in str(refusal.value)


def test_an_odd_head_is_refused_even_when_a_pair_of_it_rotates():
    odd = {"llama.attention.key_length": 15, "llama.attention.value_length": 15}
    with pytest.raises(ModelFileError, match="head size: 15 is odd"):
        config_of(TinySpec(), **odd, **{"llama.rope.dimension_count": 14})


@pytest.mark.parametrize("name", ["mistral", "mamba", "qwen3moe", "", "Llama"])
def test_an_unknown_architecture_is_refused_with_the_list_of_supported_ones(name):
    with pytest.raises(UnsupportedModel, match=f"architecture '{name}'.*llama, mistral, qwen2, .*phi3"):
        config_of(TinySpec(), general__architecture=name)


def test_a_file_without_an_architecture_is_refused():
    with pytest.raises(ModelFileError, match=r"general\.architecture: is missing"):
        config_of(TinySpec(), general__architecture=None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("expert_count", 8),
        ("attention.clamp_kqv", 8.0),
        ("attention.causal", False),
        ("attention.temperature_scale", 0.1),
        ("logit_scale", 0.5),
        ("pooling_type", 1),
        ("rope.scaling.yarn_ext_factor", 0.5),
        ("rope.scaling.type", "longrope"),
        ("rope.scaling.attn_factor", 1.2),
        ("attention.value_length", 32),
    ],
)
def test_what_would_be_computed_wrongly_is_refused_by_name(key, value):
    with pytest.raises(UnsupportedModel, match=key.split(".")[-1].replace("value_length", "values of 32")):
        config_of(TinySpec(), **{f"llama.{key}": value})


def test_neutral_values_of_the_same_keys_are_fine():
    config = config_of(
        TinySpec(),
        llama__expert_count=0,
        llama__logit_scale=1.0,
        **{"llama.attention.causal": True, "llama.rope.scaling.type": "none"},
    )
    assert config == config_of(TinySpec())


def test_llama_rotates_interleaved_pairs_and_the_others_halves():
    styles = {spec.family: read_config(tiny_source(spec)).rope_style for spec in TINY_SPECS}
    assert styles.pop("llama") == "interleaved"
    assert set(styles.values()) == {"half"}


@pytest.mark.parametrize("key", ["rope.scaling.factor", "rope.scale_linear"])
def test_linear_scaling_is_read_under_its_new_and_its_old_key(key):
    config = config_of(TinySpec(), **{f"llama.{key}": 4.0})
    assert config.rotaries == (rotary(10_000.0, 16, LinearScaling(4.0)),) * 2


@pytest.mark.parametrize("factor", [0.0, 1.0])
def test_a_factor_that_scales_nothing_is_no_scaling(factor):
    assert config_of(TinySpec(), **{"llama.rope.scaling.factor": factor}).rotaries[0] == rotary(10_000.0, 16)


def test_yarn_is_read_with_its_ramp_and_magnitudes():
    keys = {
        "llama.rope.scaling.type": "yarn",
        "llama.rope.scaling.factor": 4.0,
        "llama.rope.scaling.original_context_length": 32,
    }
    plain = rotary(10_000.0, 16, YarnScaling(4.0, 32))
    assert config_of(TinySpec(), **keys).rotaries[0] == plain
    tuned = config_of(
        TinySpec(),
        **keys,
        **{
            "llama.rope.scaling.yarn_beta_fast": 8.0,
            "llama.rope.scaling.yarn_beta_slow": 2.0,
            "llama.rope.scaling.yarn_attn_factor": 1.5,
            "llama.rope.scaling.attn_factor": 2.0,
        },
    )
    assert tuned.rotaries[0] == rotary(10_000.0, 16, YarnScaling(4.0, 32, 8.0, 2.0, 3.0))
    log_multiplier = config_of(TinySpec(), **keys, **{"llama.rope.scaling.yarn_log_multiplier": 1.0})
    assert log_multiplier.rotaries[0].magnitude == 1.0
    assert log_multiplier.rotaries[0].inv_freq == plain.inv_freq


def test_yarn_without_a_factor_is_refused():
    with pytest.raises(ModelFileError, match=r"llama\.rope\.scaling\.factor: yarn needs a factor"):
        config_of(TinySpec(), **{"llama.rope.scaling.type": "yarn"})


def test_the_divisors_of_llama_31_are_applied():
    factors = (1.0, 1.0, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0)
    config = config_of(TinySpec(rope_factors=factors))
    assert config.rotaries[0].inv_freq == pytest.approx(
        np.asarray(rotary(10_000.0, 16).inv_freq) / np.asarray(factors)
    )


@pytest.mark.parametrize("factors", [(1.0,) * 7, (0.0,) + (1.0,) * 7, (math.nan,) + (1.0,) * 7])
def test_divisors_that_make_no_sense_are_refused(factors):
    with pytest.raises(ModelFileError, match=r"rope_freqs\.weight"):
        config_of(TinySpec(rope_factors=factors))


def test_divisors_in_a_family_that_has_none_are_refused():
    with pytest.raises(UnsupportedModel, match=r"rope_freqs\.weight in a model of architecture 'qwen2'"):
        config_of(TinySpec("qwen2", rope_factors=(1.0,) * 8))


def test_longrope_tensors_are_refused_by_name():
    source = tiny_source(TinySpec("phi3")).with_arrays({"rope_factors_short.weight": np.ones(8)})
    with pytest.raises(UnsupportedModel, match="longrope"):
        read_config(source)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (TinySpec("llama", window=7), (7, 7)),
        (TinySpec("llama", window=128), (None, None)),
        (TinySpec("phi3", window=9), (9, 9)),
        (TinySpec("gemma2", n_layers=4, window=5), (5, None, 5, None)),
        (TinySpec("gemma2", n_layers=2, context_length=8192), (4096, None)),
        (TinySpec("gemma3", n_layers=7, window=6), (6, 6, 6, 6, 6, None, 6)),
        (TinySpec("gemma3", n_layers=2), (None, None)),
    ],
    ids=lambda value: value.label if isinstance(value, TinySpec) else "",
)
def test_windows_fall_on_the_layers_of_the_family(spec, expected):
    assert config_of(spec).windows == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (3, (6, 6, None, 6)),
        ([True, False, False, True], (6, None, None, 6)),
        (np.array([0, 1, 1, 0]), (None, 6, 6, None)),
    ],
)
def test_a_pattern_key_says_which_layers_have_the_window(pattern, expected):
    spec = TinySpec("gemma3", n_layers=4, window=6)
    assert config_of(spec, **{"gemma3.attention.sliding_window_pattern": pattern}).windows == expected


def test_a_window_of_qwen_is_refused_without_a_pattern():
    with pytest.raises(UnsupportedModel, match=r"qwen2\.attention\.sliding_window = 7 without"):
        config_of(TinySpec("qwen2", window=7))
    with_pattern = config_of(
        TinySpec("qwen2", window=7), **{"qwen2.attention.sliding_window_pattern": [False, True]}
    )
    assert with_pattern.windows == (None, 7)


def test_gemma3_rotates_windowed_layers_with_a_base_of_their_own_and_scales_the_rest():
    spec = TinySpec("gemma3", n_layers=6, window=6)
    keys = {"gemma3.rope.freq_base": 1e6, "gemma3.rope.scaling.factor": 8.0}
    local, far = rotary(10_000.0, 16), rotary(1e6, 16, LinearScaling(8.0))
    assert config_of(spec, **keys).rotaries == (local,) * 5 + (far,)
    keys["gemma3.rope.freq_base_swa"] = 500.0
    assert config_of(spec, **keys).rotaries == (rotary(500.0, 16),) * 5 + (far,)


def test_gemma3_keeps_the_local_base_where_the_context_is_shorter_than_the_window():
    config = config_of(TinySpec("gemma3", n_layers=6, window=512), **{"gemma3.rope.freq_base": 1e6})
    assert config.windows == (None,) * 6
    assert config.rotaries == (rotary(10_000.0, 16),) * 5 + (rotary(1e6, 16),)


def test_gemma_scales_embeddings_by_the_root_of_the_width():
    assert config_of(TinySpec("gemma2")).embedding_scale == 8.0
    assert config_of(TinySpec("gemma3")).embedding_scale == 8.0


def test_gemma2_caps_are_assumed_unless_stated():
    config = config_of(TinySpec("gemma2"))
    assert (config.attention_softcap, config.logit_softcap) == (50.0, 30.0)
    stated = config_of(
        TinySpec("gemma2"), gemma2__attn_logit_softcapping=20.0, gemma2__final_logit_softcapping=0.0
    )
    assert (stated.attention_softcap, stated.logit_softcap) == (20.0, None)
    assert config_of(TinySpec("gemma3")).attention_softcap is None


@pytest.mark.parametrize(("family", "n_layers"), [("gemma2", 46), ("gemma3", 62)])
def test_the_27b_gemmas_scale_queries_by_width_over_heads(family, n_layers):
    spec = TinySpec(family, n_layers=n_layers, width=96, head_dim=16)
    assert config_of(spec).attention_scale == pytest.approx(1 / math.sqrt(96 / 4))
    fewer = TinySpec(family, n_layers=2, width=96, head_dim=16)
    assert config_of(fewer).attention_scale == pytest.approx(1 / math.sqrt(16))


def test_a_stated_attention_scale_wins():
    assert config_of(TinySpec(), **{"llama.attention.scale": 0.5}).attention_scale == 0.5


def test_an_embedding_table_that_is_not_a_matrix_is_refused():
    source = tiny_source(TinySpec()).with_arrays({"token_embd.weight": np.ones(96)})
    with pytest.raises(ModelFileError, match=r"token_embd\.weight: shape \(96,\)"):
        read_config(source)


@pytest.mark.model
@pytest.mark.parametrize(
    ("name", "family", "n_layers", "windowed"),
    [
        ("smollm2-135m", "llama", 30, 0),
        ("gemma3-270m", "gemma3", 18, 15),
        ("qwen2.5-coder-1.5b", "qwen2", 28, 0),
    ],
)
def test_catalogue_models_are_read(name, family, n_layers, windowed, model_path):
    from unspool.models.weights import open_weights

    with open_weights(model_path(name)) as source:
        config = read_config(source)
        assert build_graph(config, source).n_layers == n_layers
    assert (config.family.name, config.n_layers) == (family, n_layers)
    assert sum(window is not None for window in config.windows) == windowed
