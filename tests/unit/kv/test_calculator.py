"""Memory by formula, with values worked out by hand from the published shapes."""

from __future__ import annotations

import json

import pytest

from unspool.errors import BadRequest
from unspool.kv.calculator import KvMemory
from unspool.models.cache_shape import CacheShape

SMOLLM2 = CacheShape.of_heads(30, 3, 64, context_length=8192)
QWEN_CODER = CacheShape.of_heads(28, 2, 128)
GEMMA3_270M = CacheShape.of_heads(18, 1, 256, windows=((512,) * 5 + (None,)) * 3)
LLAMA3_8B = CacheShape.of_heads(32, 8, 128)
LLAMA2_7B = CacheShape.of_heads(32, 32, 128)  # as many kv heads as query heads
FALCON_7B = CacheShape.of_heads(32, 1, 64)  # one kv head for all
GEMMA2_9B = CacheShape.of_heads(42, 8, 256, windows=(4096, None) * 21)
DEEPSEEK_V2 = CacheShape.of_latent(60, 512, 64)


@pytest.mark.parametrize(
    ("shape", "n_bytes"),
    [
        (SMOLLM2, 23_040),  # 2 * 30 * 3 * 64 * 2
        (QWEN_CODER, 28_672),  # 2 * 28 * 2 * 128 * 2
        (GEMMA3_270M, 18_432),  # 2 * 18 * 1 * 256 * 2
        (LLAMA3_8B, 131_072),  # 2 * 32 * 8 * 128 * 2
        (LLAMA2_7B, 524_288),  # 2 * 32 * 32 * 128 * 2
        (FALCON_7B, 8_192),  # 2 * 32 * 1 * 64 * 2
        (GEMMA2_9B, 344_064),  # 2 * 42 * 8 * 256 * 2
        (DEEPSEEK_V2, 69_120),  # 60 * (512 + 64) * 2
    ],
)
def test_a_token_takes_what_the_formula_says(shape, n_bytes):
    assert KvMemory(shape, 4096).token_bytes == n_bytes


@pytest.mark.parametrize(
    ("shape", "n_tokens", "n_sequences", "n_bytes"),
    [
        (SMOLLM2, 8192, 16, 3_019_898_880),
        (LLAMA3_8B, 8192, 1, 1 << 30),
        (LLAMA3_8B, 131_072, 4, 64 << 30),
        (GEMMA3_270M, 8192, 1, 3 * 8192 * 1024 + 15 * 512 * 1024),
        (GEMMA3_270M, 512, 1, 18 * 512 * 1024),
        (GEMMA2_9B, 8192, 2, 2 * 21 * (8192 + 4096) * 8192),
        (DEEPSEEK_V2, 131_072, 1, 69_120 * 131_072),
    ],
)
def test_sequences_add_up_and_a_window_holds_no_more_than_itself(shape, n_tokens, n_sequences, n_bytes):
    assert KvMemory(shape, n_tokens, n_sequences).kv_bytes == n_bytes


@pytest.mark.parametrize(("kv_format", "n_bytes"), [("f16", 23_040), ("int8", 11_520), ("int4", 5_760)])
def test_a_format_has_its_bits(kv_format, n_bytes):
    found = KvMemory(SMOLLM2, 100, kv_format=kv_format)
    assert (found.token_bytes, found.sequence_bytes) == (n_bytes, 100 * n_bytes)
    assert found.engine_token_bytes == 23_040, "this engine stores float16, whatever is asked"


def test_this_engine_takes_whole_pages_and_keeps_every_token_of_a_window():
    found = KvMemory(GEMMA3_270M, 1000, 3, page_size=32)
    assert found.engine_sequence_bytes == 32 * 32 * 18_432  # 1000 tokens lie on 32 pages
    assert found.engine_kv_bytes == 3 * 32 * 32 * 18_432
    assert found.kv_bytes == 3 * (3 * 1000 + 15 * 512) * 1024


def test_a_model_that_does_not_run_here_has_no_figures_of_this_engine():
    found = KvMemory(DEEPSEEK_V2, 4096, engine_runs_it=False)
    assert found.engine_kv_bytes is found.engine_total_bytes is found.engine_fit(1 << 40) is None
    assert found.to_dict(1 << 40)["engine"] is None


def test_the_weights_and_a_step_stand_beside_the_cache():
    found = KvMemory(LLAMA3_8B, 8192, weight_bytes=5 << 30, step_bytes=1 << 20)
    assert found.total_bytes == found.engine_total_bytes == (6 << 30) + (1 << 20)


def test_what_fits_is_the_most_that_does():
    memory = 8 << 30
    found = KvMemory(LLAMA3_8B, 8192, 2, weight_bytes=5 << 30)
    fit, engine_fit = found.fit(memory), found.engine_fit(memory)
    assert (fit.context_length, fit.n_sequences) == (12_288, 3)  # 3 GiB at 128 KiB a token
    assert engine_fit == fit
    longer = KvMemory(LLAMA3_8B, fit.context_length + 1, 2, weight_bytes=5 << 30)
    assert KvMemory(LLAMA3_8B, fit.context_length, 2, weight_bytes=5 << 30).total_bytes <= memory
    assert longer.total_bytes > memory


@pytest.mark.parametrize("kv_format", ["f16", "int8", "int4"])
@pytest.mark.parametrize("shape", [SMOLLM2, GEMMA3_270M, GEMMA2_9B, DEEPSEEK_V2])
def test_one_more_token_or_sequence_than_fits_does_not(shape, kv_format):
    memory = 123_456_789
    found = KvMemory(shape, 700, 3, kv_format, weight_bytes=1_000_000)
    fit = found.fit(memory)
    if fit.context_length != shape.context_length:
        assert (
            KvMemory(shape, fit.context_length + 1, 3, kv_format, weight_bytes=1_000_000).total_bytes > memory
        )
    if fit.context_length:
        assert KvMemory(shape, fit.context_length, 3, kv_format, weight_bytes=1_000_000).total_bytes <= memory
    assert 1_000_000 + fit.n_sequences * found.sequence_bytes <= memory
    assert 1_000_000 + (fit.n_sequences + 1) * found.sequence_bytes > memory


def test_a_context_past_the_model_s_own_is_not_offered():
    assert KvMemory(SMOLLM2, 100).fit(1 << 50).context_length == 8192
    assert KvMemory(SMOLLM2, 100).engine_fit(1 << 50).context_length == 8192


def test_nothing_fits_beside_weights_that_do_not():
    found = KvMemory(SMOLLM2, 100, weight_bytes=1 << 30)
    assert (found.fit(1 << 20).context_length, found.fit(1 << 20).n_sequences) == (0, 0)
    assert (found.engine_fit(1 << 20).context_length, found.engine_fit(1 << 20).n_sequences) == (0, 0)


def test_the_whole_is_plain_values_for_json():
    told = json.loads(json.dumps(KvMemory(SMOLLM2, 8192, 16, "int8").to_dict(8 << 30)))
    assert told["formula"]["token_bytes"] == 11_520
    assert told["engine"]["kv_format"] == "f16"
    assert told["engine"]["fit_n_sequences"] == 45
    assert told["memory_bytes"] == 8 << 30


def test_a_shape_says_what_it_is():
    assert SMOLLM2.what == "30 layers, 3 kv heads of 64"
    assert FALCON_7B.what == "32 layers, 1 kv head of 64"
    assert GEMMA2_9B.what == "42 layers, 8 kv heads of 256, 21 layers with a window of 4096"
    assert DEEPSEEK_V2.what == "60 layers, latent of 512 + 64"
    assert CacheShape.of_heads(2, [4, 8], 64).values == (512, 1024)
    assert CacheShape.of_heads(2, [4, 8], 64).what == "2 layers, 4 to 8 kv heads of 64"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: CacheShape.of_heads(0, 1, 64), r"n_layers must be a whole number in \[1, 1024\], got 0"),
        (lambda: CacheShape.of_heads(1 << 30, 1, 64), "n_layers must be a whole number in"),
        (
            lambda: CacheShape.of_heads(2, [1], 64),
            "n_kv_heads must have one entry for each of 2 layers",
        ),
        (lambda: CacheShape.of_heads(2, 1, 64, windows=[8]), "windows must have one entry for each of 2"),
        (lambda: CacheShape.of_heads(2, 1, 0), r"head_dim must be a whole number in .* got 0"),
        (lambda: CacheShape.of_heads(2, 1, 64, windows=[0, None]), "must be a whole number in .* got 0"),
        (lambda: CacheShape.of_latent(2, 512, -1), "must be a whole number in .* got -1"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(make, words):
    with pytest.raises(BadRequest, match=words) as refused:
        make()
    assert refused.value.code == "bad_shape"
