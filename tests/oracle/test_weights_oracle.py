"""Tiny models saved by transformers: each parameter arrives under its GGUF name with its values.

The names come from the gguf package's own table, which converters use; the values from the live model.
"""

import gguf
import numpy as np
import pytest
import torch
import transformers

from unspool.models.weights import Encoding, dequantize, open_weights

pytestmark = pytest.mark.oracle

SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
CONFIGS = {
    "llama": lambda: transformers.LlamaConfig(**SMALL, attention_bias=True),
    "mistral": lambda: transformers.MistralConfig(**SMALL),
    "qwen2": lambda: transformers.Qwen2Config(**SMALL, tie_word_embeddings=True),
    "qwen3": lambda: transformers.Qwen3Config(**SMALL, head_dim=16),
    "gemma2": lambda: transformers.Gemma2Config(**SMALL, head_dim=8),
    "gemma3": lambda: transformers.Gemma3TextConfig(**SMALL, head_dim=8),
    "phi3": lambda: transformers.Phi3Config(**SMALL),
}


def tiny_model(family: str) -> torch.nn.Module:
    """Every parameter random, norms and biases too, so that no two could be mistaken."""
    torch.manual_seed(7)
    model = transformers.AutoModelForCausalLM.from_config(CONFIGS[family]())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    return model


def gguf_names(family: str, model: torch.nn.Module) -> dict[str, str]:
    """Checkpoint name -> GGUF name for each parameter that a checkpoint holds."""
    arch = "LLAMA" if family == "mistral" else family.upper()  # GGUF calls mistral files llama
    table = gguf.get_tensor_name_map(gguf.MODEL_ARCH[arch], SMALL["num_hidden_layers"])
    return {
        name: table.get_name(name, try_suffixes=(".weight", ".bias")) for name, _ in model.named_parameters()
    }


@pytest.mark.parametrize("family", CONFIGS)
@pytest.mark.parametrize("sharded", [False, True])
def test_every_parameter_arrives_under_its_gguf_name_with_its_values(tmp_path, family, sharded):
    model = tiny_model(family)
    names = gguf_names(family, model)
    n_bytes = sum(parameter.nbytes for parameter in model.parameters())
    model.save_pretrained(tmp_path, max_shard_size=f"{n_bytes // 2 // 1000}KB" if sharded else "1GB")
    assert (tmp_path / "model.safetensors.index.json").exists() == sharded
    with open_weights(tmp_path) as source:
        assert set(source.names()) == set(names.values())
        for name, parameter in model.named_parameters():
            tensor = source.tensor(names[name])
            expected = parameter.detach().numpy()
            if family.startswith("gemma") and "norm" in name:
                expected = expected + np.float32(1)  # as the model multiplies, and as GGUF stores it
            np.testing.assert_array_equal(dequantize(tensor), expected)
        assert source.metadata["model_type"] == model.config.model_type
        assert source.metadata["generation"]["eos_token_id"] == 2


@pytest.mark.parametrize(
    ("dtype", "encoding"), [(torch.bfloat16, Encoding.BF16), (torch.float16, Encoding.F16)]
)
def test_half_precision_checkpoints_keep_their_encoding(tmp_path, dtype, encoding):
    model = tiny_model("llama").to(dtype)
    model.save_pretrained(tmp_path)
    names = gguf_names("llama", model)
    with open_weights(tmp_path) as source:
        for name, parameter in model.named_parameters():
            tensor = source.tensor(names[name])
            assert tensor.encoding is encoding
            np.testing.assert_array_equal(dequantize(tensor), parameter.detach().float().numpy())


def test_the_language_model_is_found_inside_the_one_that_sees(tmp_path):
    vision = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 28,
        "patch_size": 14,
    }
    torch.manual_seed(7)
    model = transformers.Gemma3ForConditionalGeneration(
        transformers.Gemma3Config(text_config=SMALL | {"head_dim": 8}, vision_config=vision)
    )
    model.save_pretrained(tmp_path)
    expected = set(gguf_names("gemma3", tiny_model("gemma3")).values())
    with open_weights(tmp_path) as source:
        assert set(source.names()) == expected
        table = model.model.language_model.embed_tokens.weight.detach().numpy()
        np.testing.assert_array_equal(dequantize(source.tensor("token_embd.weight")), table)


def test_the_gate_comes_before_up_in_the_fused_projection_of_phi3(tmp_path):
    """The order that both formats keep, read off the live model: only the second half passes unchanged."""
    model = tiny_model("phi3")
    mlp = model.model.layers[0].mlp
    model.save_pretrained(tmp_path)
    with open_weights(tmp_path) as source:
        fused = torch.from_numpy(dequantize(source.tensor("blk.0.ffn_up.weight")))  # (2 * n_ff, width)
    x = torch.randn(3, SMALL["hidden_size"])
    gate, up = (x @ fused.T).split(SMALL["intermediate_size"], dim=-1)
    expected = mlp(x)
    ours = mlp.down_proj(torch.nn.functional.silu(gate) * up)
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-4)
