"""The decoder-only transformer, for every family of the table in families.py.

    x = embed(tokens)
    each layer:  x += post_norm(out(attention(rope(norm(q)), rope(norm(k)), v)))   of attn_norm(x)
                 x += post_norm(down(act(gate) * up))                              of ffn_norm(x)
    logits = cap(output(output_norm(x)))

Rows whose logits are not wanted leave after the last attention: what follows works on each row by
itself, so dropping them early changes no value.
"""

from __future__ import annotations

from dataclasses import field

from unspool.light_dataclass import dataclass
from unspool.models.architectures.tensors import Tensors
from unspool.models.graph import (
    Add,
    Attention,
    Embed,
    GatedActivation,
    Graph,
    Linear,
    Op,
    RmsNorm,
    Rope,
    SelectRows,
    SoftCap,
)
from unspool.models.model_config import ModelConfig
from unspool.models.weights.base import WeightSource


def build_graph(config: ModelConfig, source: WeightSource) -> Graph:
    """The network as ops over the tensors of `source`, each checked to be there in the right shape."""
    network = _Decoder(config, Tensors(source, config))
    network.embed()
    for layer in range(config.n_layers):
        network.attention_block(layer)
        network.feed_forward_block(layer)
    network.output()
    network.tensors.refuse_unused()
    return Graph(
        ops=tuple(network.ops),
        widths={
            "x": config.width,
            "normed": config.width,
            "q": config.q_width,
            "k": config.kv_width,
            "v": config.kv_width,
            "attended": config.q_width,
            "delta": config.width,
            "gate": config.ffn_width,
            "up": config.ffn_width,
            "logits": config.vocab_size,
        },
        n_layers=config.n_layers,
        n_kv_heads=config.n_kv_heads,
        head_dim=config.head_dim,
        vocab_size=config.vocab_size,
        context_length=config.context_length,
    )


@dataclass(slots=True)
class _Decoder:
    config: ModelConfig
    tensors: Tensors
    ops: list[Op] = field(default_factory=list)

    def embed(self) -> None:
        table = self.tensors.need("token_embd.weight", self.config.vocab_size, self.config.width)
        self.ops.append(Embed("x", table, self.config.embedding_scale))

    def attention_block(self, layer: int) -> None:
        config = self.config
        self.norm("normed", "x", f"blk.{layer}.attn_norm.weight", config.width)
        self.project_qkv(layer)
        if config.family.qk_norm:
            for register in ("q", "k"):
                weight = f"blk.{layer}.attn_{register}_norm.weight"
                self.norm(register, register, weight, config.head_dim, group=config.head_dim)
        rotary = config.rotaries[layer]
        for register in ("q", "k"):
            self.ops.append(
                Rope(register, config.head_dim, rotary.inv_freq, rotary.magnitude, config.rope_style)
            )
        self.ops.append(
            Attention(
                "attended",
                "q",
                "k",
                "v",
                layer=layer,
                n_heads=config.n_heads,
                n_kv_heads=config.n_kv_heads,
                head_dim=config.head_dim,
                scale=config.attention_scale,
                window=config.windows[layer],
                softcap=config.attention_softcap,
            )
        )
        if layer == config.n_layers - 1:
            self.ops += [SelectRows("attended", "attended"), SelectRows("x", "x")]
        self.linear("delta", "attended", layer, "attn_output", config.width, config.q_width)
        self.join(layer, "post_attention_norm")

    def feed_forward_block(self, layer: int) -> None:
        config = self.config
        self.norm("normed", "x", f"blk.{layer}.ffn_norm.weight", config.width)
        if config.family.fused:
            self.stacked(layer, "ffn_up", {"gate": config.ffn_width, "up": config.ffn_width})
        else:
            for register in ("gate", "up"):
                self.linear(register, "normed", layer, f"ffn_{register}", config.ffn_width, config.width)
        self.ops.append(GatedActivation("gate", "gate", "up", config.activation))
        self.linear("delta", "gate", layer, "ffn_down", config.width, config.ffn_width)
        self.join(layer, "post_ffw_norm")

    def output(self) -> None:
        config = self.config
        self.norm("normed", "x", "output_norm.weight", config.width)
        table = "token_embd.weight" if config.tied_output else "output.weight"
        weight = self.tensors.need(table, config.vocab_size, config.width)
        bias = None if config.tied_output else self.tensors.bias("output", "output", config.vocab_size)
        self.ops.append(Linear("logits", "normed", weight, bias))
        if config.logit_softcap is not None:
            self.ops.append(SoftCap("logits", "logits", config.logit_softcap))

    def project_qkv(self, layer: int) -> None:
        config = self.config
        widths = {"q": config.q_width, "k": config.kv_width, "v": config.kv_width}
        if config.family.fused:
            self.stacked(layer, "attn_qkv", widths)
            return
        for register, width in widths.items():
            self.linear(register, "normed", layer, f"attn_{register}", width, config.width)

    def join(self, layer: int, post_norm: str) -> None:
        """x += delta, normalised first in families that do so."""
        if self.config.family.post_norms:
            self.norm("delta", "delta", f"blk.{layer}.{post_norm}.weight", self.config.width)
        self.ops.append(Add("x", "x", "delta"))

    def norm(self, out: str, x: str, weight: str, width: int, group: int | None = None) -> None:
        self.ops.append(RmsNorm(out, x, self.tensors.need(weight, width), self.config.norm_eps, group))

    def linear(self, out: str, x: str, layer: int, stem: str, n_out: int, n_in: int) -> None:
        weight = self.tensors.need(f"blk.{layer}.{stem}.weight", n_out, n_in)
        self.ops.append(Linear(out, x, weight, self.tensors.bias(f"blk.{layer}.{stem}", stem, n_out)))

    def stacked(self, layer: int, stem: str, widths: dict[str, int]) -> None:
        """One tensor that holds several projections of the normed row, one below the other."""
        n_out = sum(widths.values())
        weight = self.tensors.need(f"blk.{layer}.{stem}.weight", n_out, self.config.width)
        bias = self.tensors.bias(f"blk.{layer}.{stem}", stem, n_out)
        start = 0
        for register, width in widths.items():
            self.ops.append(Linear(register, "normed", weight, bias, rows=(start, start + width)))
            start += width
