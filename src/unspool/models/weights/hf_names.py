"""Hugging Face parameter names to GGUF names, one table a model_type.

A name without a place in its model_type's table is refused, not ignored: it would be a weight of the model
that the network does not use. GGUF names are those of the gguf package's `TENSOR_NAMES`.
"""

from __future__ import annotations

import re

from unspool.light_dataclass import dataclass

_ATTENTION = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
}
_MLP = {"mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
# Rows [q | k | v], and [gate | up]: both formats keep the order in which the model multiplies them.
_FUSED = {
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_PRE_NORMS = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
_SANDWICH_NORMS = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
_HEAD_NORMS = {"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How the checkpoints of one `model_type` name and store their weights."""

    linears: dict[str, str]  # within a layer, may have a bias
    norms: dict[str, str]  # within a layer
    norm_offset: float = 0.0  # what the model adds to a stored norm weight before it multiplies
    other_parts: tuple[str, ...] = ()  # prefixes of what is not the language model


_LLAMA = Checkpoint(_ATTENTION | _MLP, _PRE_NORMS)
_GEMMA3 = Checkpoint(_ATTENTION | _MLP, _SANDWICH_NORMS | _HEAD_NORMS, norm_offset=1.0)

CHECKPOINTS: dict[str, Checkpoint] = {
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "qwen2": _LLAMA,
    "qwen3": Checkpoint(_ATTENTION | _MLP, _PRE_NORMS | _HEAD_NORMS),
    "gemma2": Checkpoint(_ATTENTION | _MLP, _SANDWICH_NORMS, norm_offset=1.0),
    "gemma3_text": _GEMMA3,
    "gemma3": Checkpoint(  # the language model inside the one that also sees pictures
        _GEMMA3.linears,
        _GEMMA3.norms,
        norm_offset=1.0,
        other_parts=(
            "vision_tower.",
            "multi_modal_projector.",
            "model.vision_tower.",
            "model.multi_modal_projector.",
        ),
    ),
    "phi3": Checkpoint(_FUSED, _PRE_NORMS),
}

# Longest first. Without any: a checkpoint saved from the bare network, without its head.
_PREFIXES = ("language_model.model.", "model.language_model.", "language_model.", "model.", "")
_WHOLE = {
    "embed_tokens.weight": "token_embd.weight",
    "norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
    "lm_head.bias": "output.bias",
}
_IN_LAYER = re.compile(r"layers\.(0|[1-9][0-9]{0,3})\.(.+)\.(weight|bias)")
_COMPUTED = "rotary_emb.inv_freq"  # a buffer that old llama checkpoints carry; it follows from the config


def is_unused(name: str, checkpoint: Checkpoint) -> bool:
    """True for tensors that the language model does not read: pictures, and values it computes itself."""
    return name.startswith(checkpoint.other_parts) or name.endswith(_COMPUTED)


def gguf_name(name: str, checkpoint: Checkpoint) -> str | None:
    """The GGUF name of a parameter, or None when it has no place in the checkpoint."""
    prefix = next(prefix for prefix in _PREFIXES if name.startswith(prefix))
    name = name[len(prefix) :]
    if name in _WHOLE:
        return _WHOLE[name]
    match = _IN_LAYER.fullmatch(name)
    if match is None:
        return None
    layer, part, kind = match.groups()
    place = checkpoint.linears.get(part) or (checkpoint.norms.get(part) if kind == "weight" else None)
    return None if place is None else f"blk.{layer}.{place}.{kind}"
