"""Each op of the reference runner against its formula, spelled out in the slowest way."""

from __future__ import annotations

import math

import numpy as np
import pytest
from executing import logits_by_token, logits_whole, reference_runner
from random_plans import Part, make_plan
from tiny_models import TINY_SPECS, ArraySource, TinySpec, tiny_source, write_gguf

from unspool.models.graph import (
    Add,
    Attention,
    Embed,
    GatedActivation,
    Graph,
    Linear,
    RmsNorm,
    Rope,
    Scale,
    SelectRows,
    SoftCap,
)
from unspool.models.weights import open_weights
from unspool.runners.reference import ReferenceRunner

RNG = np.random.default_rng(0)
WIDTH = 8
TABLE = RNG.standard_normal((11, WIDTH)).astype(np.float32)
TOKENS = [3, 10, 0, 7, 7]
ROWS = TABLE[TOKENS]  # (5, 8)


def run(*ops, weights=None, width=WIDTH, row_exact=True, **shape):
    """What `ops` make of the embedded TOKENS, with the result of the last one as logits."""
    widths = {"x": WIDTH, "y": WIDTH, "logits": width}
    sizes = {"n_layers": 1, "n_kv_heads": 1, "head_dim": WIDTH, **shape}
    graph = Graph(
        (Embed("x", "table"), *ops, SelectRows("logits", ops[-1].out if hasattr(ops[-1], "out") else "x")),
        {**widths, **({ops[-1].out: width} if hasattr(ops[-1], "out") else {})},
        vocab_size=11,
        context_length=64,
        **sizes,
    )
    source = ArraySource({}, {"table": TABLE, **(weights or {})})
    runner = ReferenceRunner(graph, source, n_pages=2, page_size=8, row_exact=row_exact, kv_dtype=np.float32)
    return runner.forward(make_plan([Part(TOKENS, 0, [1])]))


@pytest.fixture(params=[True, False], ids=["row-exact", "all-rows"])
def row_exact(request):
    return request.param


def test_embed_reads_and_scales_rows(row_exact):
    scaled = run(Embed("y", "table", 3.0), Add("y", "y", "y"), row_exact=row_exact)
    assert scaled == pytest.approx(6 * ROWS)


def test_rms_norm_divides_by_the_root_mean_square(row_exact):
    weight = RNG.standard_normal(WIDTH).astype(np.float32)
    out = run(RmsNorm("y", "x", "w", 0.1), weights={"w": weight}, row_exact=row_exact)
    for row, expected in zip(out, ROWS, strict=True):
        root = math.sqrt(sum(float(value) ** 2 for value in expected) / WIDTH + 0.1)
        assert row == pytest.approx(expected / root * weight, rel=1e-5)


def test_rms_norm_of_groups_sees_each_head_by_itself(row_exact):
    weight = np.asarray([1.0, 2.0, 3.0, 4.0], np.float32)
    out = run(RmsNorm("y", "x", "w", 0.0, group=4), weights={"w": weight}, row_exact=row_exact)
    for start in (0, 4):
        head = ROWS[:, start : start + 4]
        expected = head / np.sqrt((head**2).mean(axis=1, keepdims=True)) * weight
        assert out[:, start : start + 4] == pytest.approx(expected, rel=1e-5)


def test_linear_multiplies_adds_a_bias_and_can_read_some_rows(row_exact):
    weight, bias = RNG.standard_normal((6, WIDTH)), RNG.standard_normal(6)
    weights = {"w": weight, "b": bias}
    whole = run(Linear("y", "x", "w", "b"), weights=weights, width=6, row_exact=row_exact)
    assert whole == pytest.approx(ROWS @ weight.T + bias, rel=1e-5)
    part = run(Linear("y", "x", "w", "b", rows=(2, 5)), weights=weights, width=3, row_exact=row_exact)
    assert part == pytest.approx(whole[:, 2:5], rel=1e-5)


@pytest.mark.parametrize("style", ["half", "interleaved"])
@pytest.mark.parametrize("n_pairs", [2, 1], ids=["whole", "partial"])
def test_rope_turns_pairs_by_their_angle(style, n_pairs, row_exact):
    inv_freq = (0.7, 0.03)[:n_pairs]
    out = run(Rope("x", 4, inv_freq, 1.5, style), row_exact=row_exact)
    expected = ROWS.astype(np.float64).copy()
    for position in range(len(TOKENS)):
        for head in range(2):
            for pair, frequency in enumerate(inv_freq):
                first, second = (pair, pair + n_pairs) if style == "half" else (2 * pair, 2 * pair + 1)
                a, b = (ROWS[position, 4 * head + i] for i in (first, second))
                angle = position * frequency
                expected[position, 4 * head + first] = 1.5 * (a * math.cos(angle) - b * math.sin(angle))
                expected[position, 4 * head + second] = 1.5 * (a * math.sin(angle) + b * math.cos(angle))
    assert out == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("window", [None, 1, 2, 100])
@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("n_kv_heads", [1, 2])
def test_attention_weighs_the_values_that_a_row_may_see(window, softcap, n_kv_heads, row_exact):
    n_heads, head_dim, scale = 4, 2, 0.9
    k_weight = RNG.standard_normal((n_kv_heads * head_dim, WIDTH))
    v_weight = RNG.standard_normal((n_kv_heads * head_dim, WIDTH))
    attention = Attention(
        "y", "x", "k", "v", 0, n_heads, n_kv_heads, head_dim, scale=scale, window=window, softcap=softcap
    )
    graph_widths = {"k": n_kv_heads * head_dim, "v": n_kv_heads * head_dim}
    graph = Graph(
        (
            Embed("x", "table"),
            Linear("k", "x", "kw"),
            Linear("v", "x", "vw"),
            attention,
            SelectRows("logits", "y"),
        ),
        {"x": WIDTH, "y": WIDTH, "logits": WIDTH, **graph_widths},
        1,
        n_kv_heads,
        head_dim,
        11,
        64,
    )
    source = ArraySource({}, {"table": TABLE, "kw": k_weight, "vw": v_weight})
    runner = ReferenceRunner(
        graph, source, n_pages=2, page_size=8, row_exact=row_exact, kv_dtype=np.float64, dtype=np.float64
    )
    out = runner.forward(make_plan([Part(TOKENS, 0, [1])]))
    k, v = ROWS @ k_weight.astype(np.float32).T, ROWS @ v_weight.astype(np.float32).T
    for position in range(len(TOKENS)):
        for head in range(n_heads):
            kv = slice(head // (n_heads // n_kv_heads) * head_dim, None)
            query = ROWS[position, head * head_dim : (head + 1) * head_dim]
            first = 0 if window is None else max(0, position - window + 1)
            scores = [float(query @ k[t, kv][:head_dim]) * scale for t in range(first, position + 1)]
            if softcap:
                scores = [softcap * math.tanh(score / softcap) for score in scores]
            weights = np.exp(scores) / np.sum(np.exp(scores))
            expected = sum(weight * v[first + i, kv][:head_dim] for i, weight in enumerate(weights.tolist()))
            found = out[position, head * head_dim : (head + 1) * head_dim]
            assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(
    ("kind", "formula"),
    [
        ("silu", lambda x: x / (1 + math.exp(-x))),
        (
            "gelu_tanh",
            lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        ),
    ],
)
def test_a_gated_activation_is_the_formula_of_the_gate_times_up(kind, formula, row_exact):
    out = run(Scale("y", "x", 2.0), GatedActivation("y", "x", "y", kind), row_exact=row_exact)
    expected = [[formula(float(value)) * 2 * float(value) for value in row] for row in ROWS]
    assert out == pytest.approx(np.asarray(expected), rel=1e-5, abs=1e-7)


def test_silu_of_large_values_neither_overflows_nor_warns():
    out = run(Scale("y", "x", 1e30), Scale("x", "x", 1e3), GatedActivation("y", "x", "y", "silu"))
    assert np.all(np.isfinite(out))


def test_add_scale_and_soft_cap(row_exact):
    assert run(Add("y", "x", "x"), row_exact=row_exact) == pytest.approx(2 * ROWS)
    assert run(Scale("y", "x", -0.5), row_exact=row_exact) == pytest.approx(-0.5 * ROWS)
    assert run(SoftCap("y", "x", 0.7), row_exact=row_exact) == pytest.approx(
        0.7 * np.tanh(ROWS / 0.7), rel=1e-5
    )


def test_keys_and_values_are_stored_as_float16_by_default():
    spec = TinySpec(context_length=64)
    tokens = np.random.default_rng(1).integers(0, spec.vocab_size, 30).tolist()
    exact = logits_whole(reference_runner(tiny_source(spec), 30), tokens)
    rounded = logits_whole(reference_runner(tiny_source(spec), 30, kv_dtype=np.float16), tokens)
    difference = np.abs(exact - rounded).max()
    assert 0 < difference < 0.05


@pytest.mark.parametrize("spec", TINY_SPECS, ids=lambda spec: spec.label)
def test_all_rows_at_once_agree_with_row_by_row_and_with_float64(spec):
    tokens = np.random.default_rng(2).integers(0, spec.vocab_size, 33).tolist()
    source = tiny_source(spec)
    exact = logits_whole(reference_runner(source, 33), tokens)
    fast = logits_whole(reference_runner(source, 33, row_exact=False), tokens)
    wide = logits_whole(reference_runner(source, 33, dtype=np.float64, kv_dtype=np.float64), tokens)
    assert np.abs(fast - exact).max() < 1e-4
    assert np.abs(wide - exact).max() < 1e-4


def test_weights_that_are_not_kept_give_the_same_bits():
    source, tokens = tiny_source(TinySpec()), [1, 2, 3]
    kept = logits_whole(reference_runner(source, 3), tokens)
    assert np.array_equal(logits_whole(reference_runner(source, 3, keep_weights=False), tokens), kept)


def test_a_closed_runner_decodes_its_weights_again():
    runner = reference_runner(tiny_source(TinySpec()), 3)
    before = logits_whole(runner, [1, 2, 3])
    runner.close()
    assert np.array_equal(logits_whole(runner, [1, 2, 3]), before)


@pytest.mark.parametrize("page_size", [0, 3, 24, -8])
def test_a_page_size_that_is_not_a_power_of_two_is_refused(page_size):
    with pytest.raises(AssertionError, match="power of two"):
        reference_runner(tiny_source(TinySpec()), 3, page_size=page_size) if page_size else ReferenceRunner(
            None, None, n_pages=1, page_size=0
        )


@pytest.mark.parametrize("spec", TINY_SPECS, ids=lambda spec: spec.label)
def test_a_model_in_memory_and_its_gguf_file_are_the_same_model(spec, tmp_path):
    tokens = np.random.default_rng(3).integers(0, spec.vocab_size, 12).tolist()
    expected = logits_by_token(reference_runner(tiny_source(spec), 12), tokens)
    with open_weights(write_gguf(tmp_path / "tiny.gguf", tiny_source(spec))) as source:
        assert np.abs(logits_by_token(reference_runner(source, 12), tokens) - expected).max() < 1e-5


@pytest.mark.parametrize("encoding", ["F16", "BF16", "Q8_0"])
def test_coarser_weights_change_logits_a_little(encoding, tmp_path):
    spec = TinySpec()
    expected = logits_whole(reference_runner(tiny_source(spec), 8), range(8))
    with open_weights(write_gguf(tmp_path / "tiny.gguf", tiny_source(spec), encoding)) as source:
        difference = np.abs(logits_whole(reference_runner(source, 8), range(8)) - expected)
    assert 0 < difference.max() < 0.2
