"""What a sound Hugging Face folder gives."""

import json

import numpy as np
import pytest

from unspool.errors import UnsupportedModel
from unspool.models.weights import Encoding, dequantize, open_weights

ATTENTION = {
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
}
MLP = {
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
}
PRE_NORMS = {
    "input_layernorm.weight": "attn_norm.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
}
SANDWICH = {
    "input_layernorm.weight": "attn_norm.weight",
    "post_attention_layernorm.weight": "post_attention_norm.weight",
    "pre_feedforward_layernorm.weight": "ffn_norm.weight",
    "post_feedforward_layernorm.weight": "post_ffw_norm.weight",
}
HEAD_NORMS = {
    "self_attn.q_norm.weight": "attn_q_norm.weight",
    "self_attn.k_norm.weight": "attn_k_norm.weight",
}
BIASES = {f"self_attn.{letter}_proj.bias": f"attn_{letter}.bias" for letter in "qkv"}
FUSED = {
    "self_attn.qkv_proj.weight": "attn_qkv.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "mlp.gate_up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
}
LAYERS = {
    "llama": ATTENTION | MLP | PRE_NORMS,
    "mistral": ATTENTION | MLP | PRE_NORMS,
    "qwen2": ATTENTION | MLP | PRE_NORMS | BIASES,
    "qwen3": ATTENTION | MLP | PRE_NORMS | HEAD_NORMS,
    "gemma2": ATTENTION | MLP | SANDWICH,
    "gemma3_text": ATTENTION | MLP | SANDWICH | HEAD_NORMS,
    "phi3": FUSED | PRE_NORMS,
}


def numbers(n: int) -> np.ndarray:
    return np.arange(1, n + 1, dtype=np.float32)


def small(*names: str) -> dict[str, np.ndarray]:
    return {name: numbers(4) * (i + 1) for i, name in enumerate(names)}


@pytest.mark.parametrize("family", LAYERS)
@pytest.mark.parametrize("prefix", ["model.", "", "language_model.model.", "model.language_model."])
def test_every_parameter_gets_its_gguf_name(hf_folder, family, prefix):
    expected = {"embed_tokens.weight": "token_embd.weight", "norm.weight": "output_norm.weight"}
    for layer in (0, 1, 10):
        expected |= {f"layers.{layer}.{hf}": f"blk.{layer}.{ours}" for hf, ours in LAYERS[family].items()}
    tensors = small(*(prefix + hf for hf in expected), "lm_head.weight")
    source = open_weights(hf_folder.config(family).weights(tensors).path)
    assert set(source.names()) == {*expected.values(), "output.weight"}
    gemma = family.startswith("gemma")
    for hf, ours in expected.items():
        offset = 1 if gemma and ours.endswith("norm.weight") else 0
        np.testing.assert_array_equal(dequantize(source.tensor(ours)), tensors[prefix + hf] + offset)
    assert source.format == "safetensors"
    assert source.path == hf_folder.path


def test_a_tied_model_has_no_output(hf_folder):
    source = open_weights(hf_folder.config("llama").weights(small("model.embed_tokens.weight")).path)
    assert "output.weight" not in source
    with pytest.raises(UnsupportedModel, match=r"no tensor output\.weight"):
        source.tensor("output.weight")


def test_f16_and_bf16_stay_as_stored_and_gemma_norms_become_float32(hf_folder):
    halves = np.array([1.5, -2, 0.25], dtype=np.float16)
    brains = np.array([0x3F80, 0xC000], dtype=np.uint16)  # 1, -2
    tensors = {"model.embed_tokens.weight": halves, "lm_head.weight": brains, "model.norm.weight": brains}
    source = open_weights(hf_folder.config("gemma2").weights(tensors).path)
    assert source.tensor("token_embd.weight").encoding is Encoding.F16
    assert source.tensor("output.weight").encoding is Encoding.BF16
    norm = source.tensor("output_norm.weight")
    assert norm.encoding is Encoding.F32
    assert norm.shape == (2,)
    assert dequantize(source.tensor("token_embd.weight")).tolist() == [1.5, -2, 0.25]
    assert dequantize(source.tensor("output.weight")).tolist() == [1, -2]
    assert dequantize(norm).tolist() == [2, -1]


def test_shards_are_joined_by_their_index(hf_folder):
    hf_folder.config("llama").weights(small("model.norm.weight", "stray"), "model-00001-of-00002.safetensors")
    hf_folder.weights({"lm_head.weight": numbers(3)}, "model-00002-of-00002.safetensors")
    hf_folder.index(
        {
            "model.norm.weight": "model-00001-of-00002.safetensors",
            "lm_head.weight": "model-00002-of-00002.safetensors",
        }
    )
    source = open_weights(hf_folder.path)
    assert source.names() == ("output_norm.weight", "output.weight")
    assert dequantize(source.tensor("output.weight")).tolist() == [1, 2, 3]


def test_a_single_file_is_opened_with_the_config_beside_it(hf_folder):
    hf_folder.config("qwen2").weights(small("lm_head.weight"), "weights.safetensors")
    source = open_weights(hf_folder.path / "weights.safetensors")
    assert source.path == hf_folder.path
    assert source.names() == ("output.weight",)
    assert open_weights(hf_folder.path).names() == ("output.weight",)  # the only such file of the folder


def test_metadata_is_the_config_with_the_generation_config(hf_folder):
    hf_folder.config("llama", hidden_size=8).weights(small("lm_head.weight"))
    assert open_weights(hf_folder.path).metadata == {
        "model_type": "llama",
        "hidden_size": 8,
        "generation": {},
    }
    (hf_folder.path / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, 2]}))
    assert open_weights(hf_folder.path).metadata["generation"] == {"eos_token_id": [1, 2]}


def test_what_the_language_model_does_not_read_is_left_out(hf_folder):
    pictures = {"model.vision_tower.x.weight": numbers(2), "multi_modal_projector.y": numbers(2)}
    tensors = pictures | small("model.language_model.norm.weight", "language_model.lm_head.weight")
    assert open_weights(hf_folder.config("gemma3").weights(tensors).path).names() == (
        "output_norm.weight",
        "output.weight",
    )


def test_computed_buffers_of_old_checkpoints_are_left_out(hf_folder):
    tensors = small("model.layers.0.self_attn.rotary_emb.inv_freq", "lm_head.weight")
    assert open_weights(hf_folder.config("llama").weights(tensors).path).names() == ("output.weight",)


def test_a_folder_tensor_outlives_its_source(hf_folder):
    with open_weights(hf_folder.config("llama").weights(small("lm_head.weight")).path) as source:
        tensor = source.tensor("output.weight")
    assert dequantize(tensor).tolist() == [1, 2, 3, 4]
    assert "output.weight" in source
    with pytest.raises(ValueError, match="closed"):
        source.tensor("output.weight")
