"""The descriptions: which ops each family is made of, and which files do not fit their description."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from tiny_models import TINY_SPECS, TinySpec, tiny_source

from unspool.errors import ModelFileError, UnsupportedModel
from unspool.models.architectures import build_graph
from unspool.models.config import read_config
from unspool.models.graph import (
    Attention,
    Embed,
    GatedActivation,
    Graph,
    Linear,
    RmsNorm,
    Rope,
    SelectRows,
    SoftCap,
    reads,
    writes,
)


def graph_of(spec: TinySpec, changes=None, **metadata) -> Graph:
    source = tiny_source(spec).with_metadata(**metadata).with_arrays(changes or {})
    return build_graph(read_config(source), source)


@pytest.mark.parametrize("spec", TINY_SPECS, ids=lambda spec: spec.label)
def test_every_register_is_written_before_it_is_read_and_has_a_width(spec):
    graph, source = graph_of(spec), tiny_source(spec)
    written: dict[str, bool] = {}  # register -> whether it holds only the wanted rows
    selected = False
    for op in graph.ops:
        inputs = [
            getattr(op, name) for name in ("x", "q", "k", "v", "gate", "up", "a", "b") if hasattr(op, name)
        ]
        assert list(reads(op)) == inputs
        assert all(register in written for register in inputs), op
        if isinstance(op, SelectRows):
            selected = True
        else:
            assert len({written[register] for register in inputs}) <= 1, f"{op} mixes all and wanted rows"
        out = op.x if isinstance(op, Rope) else op.out
        assert writes(op) == out
        written[out] = isinstance(op, SelectRows) or any(written[register] for register in inputs)
        assert out in graph.widths
        for name in (getattr(op, "weight", None), getattr(op, "bias", None)):
            assert name is None or name in source
    assert selected
    assert graph.ops[-1].out == "logits"
    assert written["logits"]
    assert graph.widths["logits"] == graph.vocab_size == spec.vocab_size


@pytest.mark.parametrize("spec", TINY_SPECS, ids=lambda spec: spec.label)
def test_widths_of_linears_agree_with_their_registers(spec):
    graph, source = graph_of(spec), tiny_source(spec)
    for op in graph.ops:
        if isinstance(op, Linear):
            n_out, n_in = source.tensor(op.weight).shape
            start, stop = op.rows or (0, n_out)
            assert (stop - start, n_in) == (graph.widths[op.out], graph.widths[op.x])


@pytest.mark.parametrize("spec", TINY_SPECS, ids=lambda spec: spec.label)
def test_every_tensor_of_a_file_has_a_place(spec):
    used = set()
    for op in graph_of(spec).ops:
        used |= {getattr(op, "weight", None), getattr(op, "bias", None)}
    assert set(tiny_source(spec).names()) - {"rope_freqs.weight"} <= used


def test_the_ops_of_a_llama_layer():
    kinds = Counter(type(op) for op in graph_of(TinySpec(n_layers=3)).ops)
    assert kinds[Embed] == 1
    assert kinds[Attention] == kinds[GatedActivation] == 3
    assert kinds[RmsNorm] == 3 * 2 + 1
    assert kinds[Linear] == 3 * 7 + 1
    assert kinds[Rope] == 6
    assert kinds[SelectRows] == 2
    assert kinds[SoftCap] == 0


def test_the_ops_that_other_families_add():
    assert sum(isinstance(op, RmsNorm) for op in graph_of(TinySpec("qwen3", n_layers=3)).ops) == 3 * 4 + 1
    assert sum(isinstance(op, RmsNorm) for op in graph_of(TinySpec("gemma2", n_layers=3)).ops) == 3 * 4 + 1
    assert sum(isinstance(op, RmsNorm) for op in graph_of(TinySpec("gemma3", n_layers=3)).ops) == 3 * 6 + 1
    gemma2 = graph_of(TinySpec("gemma2"))
    assert gemma2.ops[0] == Embed("x", "token_embd.weight", 8.0)
    assert gemma2.ops[-1] == SoftCap("logits", "logits", 30.0)
    assert all(op.softcap == 50.0 for op in gemma2.ops if isinstance(op, Attention))
    head_norms = [op for op in graph_of(TinySpec("gemma3")).ops if isinstance(op, RmsNorm) and op.group]
    assert [op.group for op in head_norms] == [16] * 4


def test_fused_projections_are_read_in_parts():
    ops = [op for op in graph_of(TinySpec("phi3", n_layers=1, tied=False)).ops if isinstance(op, Linear)]
    parts = {op.out: (op.weight, op.rows) for op in ops if op.rows}
    assert parts == {
        "q": ("blk.0.attn_qkv.weight", (0, 64)),
        "k": ("blk.0.attn_qkv.weight", (64, 96)),
        "v": ("blk.0.attn_qkv.weight", (96, 128)),
        "gate": ("blk.0.ffn_up.weight", (0, 96)),
        "up": ("blk.0.ffn_up.weight", (96, 192)),
    }


def test_rows_that_are_not_wanted_leave_after_the_last_attention():
    ops = graph_of(TinySpec(n_layers=2)).ops
    last = max(i for i, op in enumerate(ops) if isinstance(op, Attention))
    assert all(isinstance(op, SelectRows) for op in ops[last + 1 : last + 3])
    assert not any(isinstance(op, SelectRows) for op in ops[: last + 1])


@pytest.mark.parametrize(("tied", "weight"), [(True, "token_embd.weight"), (False, "output.weight")])
def test_logits_come_from_the_output_matrix_or_the_embedding_table(tied, weight):
    assert graph_of(TinySpec(tied=tied)).ops[-1] == Linear("logits", "normed", weight)


def test_a_bias_is_used_where_the_file_has_one():
    graph = graph_of(TinySpec(), {"blk.1.attn_output.bias": np.ones(64), "blk.0.ffn_down.bias": np.ones(64)})
    biases = {op.bias for op in graph.ops if isinstance(op, Linear) and op.bias}
    assert biases == {"blk.1.attn_output.bias", "blk.0.ffn_down.bias"}


def test_a_bias_that_the_family_needs_must_be_there():
    with pytest.raises(ModelFileError, match=r"blk\.1\.attn_k\.bias: is missing from a qwen2 model"):
        graph_of(TinySpec("qwen2"), {"blk.1.attn_k.bias": None})


@pytest.mark.parametrize("name", ["blk.1.ffn_down.weight", "output_norm.weight", "blk.0.attn_norm.weight"])
def test_a_missing_tensor_is_named(name):
    with pytest.raises(ModelFileError, match=rf"^llama\.gguf: {name}: is missing from a llama model$"):
        graph_of(TinySpec(), {name: None})


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("blk.0.attn_q.weight", (48, 64)),
        ("blk.0.attn_q.weight", (64, 32)),
        ("blk.1.ffn_up.weight", (64, 96)),
        ("blk.1.attn_norm.weight", (32,)),
        ("output_norm.weight", (64, 1)),
        ("token_embd.weight", (96, 32)),
    ],
)
def test_a_tensor_of_another_shape_is_refused_with_both_shapes(name, shape):
    with pytest.raises(ModelFileError, match=name) as refusal:
        graph_of(TinySpec(), {name: np.ones(shape)})
    assert f"has shape {shape}, but the model's configuration asks for (" in str(refusal.value)


def test_a_claim_about_sizes_that_the_tensors_deny_is_refused():
    with pytest.raises(ModelFileError, match=r"blk\.0\.ffn_gate\.weight: has shape \(96, 64\)"):
        graph_of(TinySpec(), llama__feed_forward_length=128)


def test_more_layers_than_the_configuration_says_are_refused():
    with pytest.raises(ModelFileError, match=r"blk\.1\..*lies past the 1 layers"):
        graph_of(TinySpec(), llama__block_count=1)


@pytest.mark.parametrize("stem", ["attn_sinks.weight", "ffn_gate_exps.weight", "attn_q_norm.weight"])
def test_a_tensor_without_a_place_is_refused_by_name(stem):
    with pytest.raises(UnsupportedModel, match=rf"tensor 'blk\.0\.{stem}' has no place"):
        graph_of(TinySpec(), {f"blk.0.{stem}": np.ones(16)})


def test_tensors_outside_the_layers_and_tables_of_angles_are_left_alone():
    extra = {"blk.0.attn_rot_embd.weight": np.ones(8), "cls.weight": np.ones((2, 64))}
    assert graph_of(TinySpec(), extra) == graph_of(TinySpec())
