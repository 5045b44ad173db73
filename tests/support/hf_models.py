"""Tiny models as Hugging Face folders: the cases whose logits transformers vouches for.

Weights come from numpy's legacy generator, whose stream is frozen, so the same case is the same
model wherever it is built: with transformers in the oracle tier, and without it elsewhere.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pipelines import tiny_pipeline

RECORDED = Path(__file__).parents[1] / "data" / "logits"  # of transformers, by case
N_TOKENS = 40  # longer than every window and every original context of the cases


@dataclass(frozen=True)
class HfCase:
    name: str
    model_type: str
    config: dict[str, Any]


_SMALL = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 64,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_LINEAR = {"rope_type": "linear", "factor": 4.0, "rope_theta": 10_000.0}
_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
    "rope_theta": 50.0,
}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "rope_theta": 100.0}
_GEMMA3_ROPE = {
    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1_000_000.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
}


def _case(name: str, model_type: str, **config: Any) -> HfCase:
    return HfCase(name, model_type, {**_SMALL, **config})


HF_CASES: tuple[HfCase, ...] = (
    _case("llama", "llama", tie_word_embeddings=True),
    _case("llama-linear", "llama", rope_parameters=_LINEAR, num_key_value_heads=4),
    _case("llama-llama3-wide-heads", "llama", rope_parameters=_LLAMA3, head_dim=16),
    _case("llama-yarn-biases", "llama", rope_parameters=_YARN, attention_bias=True, mlp_bias=True),
    _case(
        "llama-yarn-tuned",
        "llama",
        head_dim=16,
        rope_parameters={
            **_YARN,
            "mscale": 0.8,
            "mscale_all_dim": 0.5,
            "beta_fast": 6.0,
            "beta_slow": 0.5,
            "truncate": False,
        },
    ),
    _case("mistral-window", "mistral", sliding_window=7),
    _case("mistral-narrow-heads", "mistral", sliding_window=None, head_dim=4, num_key_value_heads=1),
    _case("qwen2", "qwen2", tie_word_embeddings=True),
    _case(
        "qwen2-upper-windows",
        "qwen2",
        use_sliding_window=True,
        sliding_window=6,
        max_window_layers=1,
        rope_parameters={**_YARN, "attention_factor": 1.3},
    ),
    _case("qwen3", "qwen3", head_dim=16, tie_word_embeddings=True),
    _case("qwen3-yarn", "qwen3", head_dim=12, rope_parameters=_YARN, num_key_value_heads=1),
    _case("gemma2", "gemma2", head_dim=16, query_pre_attn_scalar=24, sliding_window=5),
    _case(
        "gemma2-uncapped",
        "gemma2",
        head_dim=8,
        query_pre_attn_scalar=8,
        sliding_window=9,
        attn_logit_softcapping=None,
        final_logit_softcapping=None,
    ),
    _case(
        "gemma3",
        "gemma3_text",
        num_hidden_layers=7,
        head_dim=16,
        query_pre_attn_scalar=20,
        sliding_window=6,
        rope_parameters=_GEMMA3_ROPE,
    ),
    _case(
        "gemma3-odd-layers",
        "gemma3_text",
        head_dim=8,
        query_pre_attn_scalar=8,
        sliding_window=11,
        layer_types=["full_attention", "sliding_attention", "full_attention"],
        final_logit_softcapping=4.0,
    ),
    _case("phi3", "phi3", sliding_window=9, num_key_value_heads=4),
    _case(
        "phi3-partial",
        "phi3",
        head_dim=16,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.75},
        tie_word_embeddings=True,
    ),
)


def case_tokens(case: HfCase) -> list[int]:
    """N_TOKENS ids, the same for a case wherever it runs."""
    return np.random.RandomState(7).randint(3, case.config["vocab_size"], N_TOKENS).tolist()


def case_weights(shapes: dict[str, tuple[int, ...]], model_type: str) -> dict[str, np.ndarray]:
    """Random float32 weights for the parameters of these names and shapes, large enough to matter."""
    random = np.random.RandomState(len(model_type))
    weights = {}
    for name in sorted(shapes):
        values = random.standard_normal(shapes[name])
        if name.endswith("norm.weight") or "layernorm" in name:
            values = values * 0.2 + (0.0 if model_type.startswith("gemma") else 1.0)  # Gemma adds the 1
        elif name.endswith(".bias"):
            values = values * 0.3
        else:
            values = values * (1.5 / np.sqrt(shapes[name][-1]))
        weights[name] = values.astype(np.float32)
    return weights


def write_hf_folder(folder: Path, config: dict[str, Any], weights: dict[str, np.ndarray]) -> Path:
    """config.json and one safetensors file, as transformers would lay them out."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, array in weights.items():
        start, end = end, end + array.nbytes
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    with open(folder / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in weights.values():
            file.write(np.ascontiguousarray(array, "<f4").tobytes())
    return folder


def write_case(folder: Path, case: HfCase) -> Path:
    """The model of a case as it was recorded, with a tokenizer."""
    record = json.loads((RECORDED / f"{case.name}.json").read_text())
    shapes = {name: tuple(shape) for name, shape in record["shapes"].items()}
    write_hf_folder(folder, record["config"], case_weights(shapes, case.model_type))
    tiny_pipeline(case.config["vocab_size"]).save(str(folder / "tokenizer.json"))
    return folder
