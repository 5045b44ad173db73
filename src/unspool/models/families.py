"""The table in which the supported families differ. A new family of the same shape is one more line."""

from __future__ import annotations

from typing import Literal

from unspool.light_dataclass import dataclass

Activation = Literal["silu", "gelu_tanh"]


@dataclass(frozen=True, slots=True)
class Family:
    """What the architecture's name decides; everything else is read from the file.

    `fused` projections hold q, k, v stacked in attn_qkv and gate, up stacked in ffn_up. `post_norms`
    normalise the outputs of attention and of the feed-forward part before they join the residual.
    `gguf_rope_style` is "interleaved" where converters to GGUF permute the rows of q and k.
    """

    name: str
    activation: Activation = "silu"
    qkv_bias: bool = False  # must be there; elsewhere a bias is used when the file holds one
    qk_norm: bool = False
    post_norms: bool = False
    scaled_embedding: bool = False  # times sqrt(width)
    fused: bool = False
    gguf_rope_style: Literal["half", "interleaved"] = "half"
    tied_by_default: bool = False  # when config.json does not say
    window_period: int | None = None  # every period-th layer attends to everything, the rest to a window
    upper_windows: bool = False  # windows only where config.json turns them on, and from a layer it names
    local_rope_base: float | None = None  # rope base of the layers with a window
    attention_softcap: float | None = None  # when the file does not say
    logit_softcap: float | None = None
    hf_activation_key: str = "hidden_act"  # in config.json; Gemma's also carries a hidden_act it does not use


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family("llama", gguf_rope_style="interleaved"),
        Family("mistral", gguf_rope_style="interleaved"),
        Family("qwen2", qkv_bias=True, upper_windows=True),
        Family("qwen3", qk_norm=True, upper_windows=True),
        Family(
            "gemma2",
            activation="gelu_tanh",
            post_norms=True,
            scaled_embedding=True,
            tied_by_default=True,
            window_period=2,
            attention_softcap=50.0,
            logit_softcap=30.0,
            hf_activation_key="hidden_activation",
        ),
        Family(
            "gemma3",
            activation="gelu_tanh",
            qk_norm=True,
            post_norms=True,
            scaled_embedding=True,
            tied_by_default=True,
            window_period=6,
            local_rope_base=10_000.0,
            hf_activation_key="hidden_activation",
        ),
        Family("phi3", fused=True),
    )
}

SUPPORTED = ", ".join(FAMILIES)
