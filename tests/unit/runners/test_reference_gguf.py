"""The same weights under both formats' conventions give the same logits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from executing import logits_whole, reference_runner
from hf_models import HF_CASES, case_tokens, case_weights, write_hf_folder
from tiny_models import ArraySource

from unspool.models.weights import dequantize, open_weights

RECORDED = Path(__file__).parent.parent.parent / "data" / "logits"
YARN = {
    "rope.freq_base": 100.0,
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": 32,
}

# case -> (GGUF architecture, its keys beyond the sizes)
CASES = {
    "llama": ("llama", {}),
    "llama-linear": ("llama", {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}),
    "llama-llama3-wide-heads": ("llama", {"rope.freq_base": 50.0}),
    "llama-yarn-biases": (
        "llama",
        YARN,
    ),
    "mistral-window": ("llama", {"attention.sliding_window": 7}),
    "qwen2": ("qwen2", {}),
    "qwen3": ("qwen3", {}),
    "gemma2": ("gemma2", {"attention.sliding_window": 5, "attention.scale": 24**-0.5}),
    "gemma3": (
        "gemma3",
        {
            "attention.sliding_window": 6,
            "attention.scale": 20**-0.5,
            "rope.freq_base": 1e6,
            "rope.scaling.type": "linear",
            "rope.scaling.factor": 8.0,
        },
    ),
    "phi3": ("phi3", {"attention.sliding_window": 9}),
    "phi3-partial": ("phi3", {"rope.dimension_count": 12}),
}


def interleaved(weight: np.ndarray, n_heads: int) -> np.ndarray:
    """Rows of q or k as GGUF stores them for llama: pair (i, i + n/2) of a head becomes (2i, 2i + 1)."""
    return weight.reshape(n_heads, 2, -1, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def gguf_twin(config: dict, folder_source, architecture: str, keys: dict) -> ArraySource:
    n_heads, n_kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // n_heads
    sizes = {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": n_heads,
        "attention.head_count_kv": n_kv_heads,
        "attention.key_length": head_dim,
        "attention.value_length": head_dim,
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
    }
    arrays = {name: dequantize(folder_source.tensor(name)) for name in folder_source.names()}
    if architecture == "llama":
        for name in arrays:
            if ".attn_q." in name or ".attn_k." in name:
                arrays[name] = interleaved(arrays[name], n_heads if ".attn_q." in name else n_kv_heads)
    metadata = {f"{architecture}.{key}": value for key, value in {**sizes, **keys}.items()}
    return ArraySource({"general.architecture": architecture, **metadata}, arrays)


@pytest.mark.parametrize("name", CASES)
def test_gguf_conventions_give_the_logits_of_transformers(name, tmp_path):
    case = next(case for case in HF_CASES if case.name == name)
    record = json.loads((RECORDED / f"{name}.json").read_text())
    weights = case_weights({k: tuple(shape) for k, shape in record["shapes"].items()}, case.model_type)
    architecture, keys = CASES[name]
    with open_weights(write_hf_folder(tmp_path, record["config"], weights)) as folder_source:
        source = gguf_twin(record["config"], folder_source, architecture, keys)
    if name == "llama-llama3-wide-heads":
        source = source.with_arrays(
            {"rope_freqs.weight": llama3_divisors(record["config"]["rope_parameters"])}
        )
    tokens = case_tokens(case)
    logits = logits_whole(reference_runner(source, len(tokens)), tokens)
    for position, expected in record["logits"].items():
        assert np.abs(logits[int(position)] - expected).max() < 1e-4


def llama3_divisors(settings: dict) -> np.ndarray:
    """What a converter stores for heads of 16: by which each frequency is divided, step by step."""
    divisors = []
    for pair in range(8):
        frequency = settings["rope_theta"] ** (-2 * pair / 16)
        wavelength = 2 * np.pi / frequency
        context, low, high = (
            settings[key]
            for key in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor")
        )
        if wavelength < context / high:
            divisors.append(1.0)
        elif wavelength > context / low:
            divisors.append(settings["factor"])
        else:
            smooth = (context / wavelength - low) / (high - low)
            divisors.append(1 / ((1 - smooth) / settings["factor"] + smooth))
    assert len(set(divisors)) > 2, "the case should blend"
    return np.asarray(divisors, np.float32)
