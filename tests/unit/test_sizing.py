"""Memory by a model's name, file or shape."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tiny_llm import write_tiny_llm
from tiny_models import TinySpec, byte_tokenizer_metadata, tiny_source, write_gguf

from unspool import DecodingParams, kv_memory
from unspool.errors import BadRequest, CapacityError, ModelNotFound, UnsupportedModel
from unspool.llm import LLM
from unspool.models.cache_shape import CacheShape
from unspool.models.catalogue import CATALOGUE
from unspool.models.shape_reader import read_shape
from unspool.runners.packed_size import weight_bytes


@pytest.mark.parametrize(
    ("name", "token_bytes", "context_length"),
    [
        ("smollm2-135m", 23_040, 8192),
        ("gemma3-270m", 18_432, 32_768),
        ("qwen2.5-coder-1.5b", 28_672, 32_768),
    ],
)
def test_a_catalogue_name_needs_no_file(name, token_bytes, context_length, monkeypatch):
    monkeypatch.setenv("UNSPOOL_CACHE", "/nowhere")
    found = kv_memory(name)
    assert (found.token_bytes, found.context_length) == (token_bytes, context_length)
    assert found.weight_bytes > CATALOGUE[name].n_bytes // 2


@pytest.mark.model
@pytest.mark.parametrize("name", CATALOGUE)
def test_the_catalogue_says_of_each_model_what_its_file_says(name, model_path):
    from unspool.models.loader import LoadedModel

    loaded, known = LoadedModel(model_path(name)), CATALOGUE[name].loaded
    try:
        assert read_shape(loaded.source) == (known.shape, True)
        assert weight_bytes(loaded.graph, loaded.source) == known.weight_bytes
        widths = loaded.graph.widths
        assert sum(widths.values()) - widths["logits"] == known.row_values
        assert loaded.graph.vocab_size == known.vocab_size
    finally:
        loaded.close()


def test_a_file_tells_its_shape_and_what_it_will_take_loaded(tmp_path):
    path = write_tiny_llm(tmp_path / "tiny.gguf")
    found = kv_memory(path, context_length=100, n_sequences=2, page_size=32)
    with LLM(path, kv_tokens=256) as llm:
        assert found.weight_bytes == llm.runner.weight_bytes
        assert found.engine_kv_bytes == llm.runner.kv_bytes, "two sequences of 100 tokens lie on 8 pages"


def test_an_amateur_reads_every_sequence_on_pages_that_have_room_for_both(tmp_path):
    big = write_tiny_llm(tmp_path / "big.gguf", n_layers=3)
    small = write_tiny_llm(tmp_path / "small.gguf", n_layers=1)
    found = kv_memory(big, amateur=small, context_length=64, n_sequences=2, page_size=32)
    own, its = (kv_memory(path, context_length=64, n_sequences=2, page_size=32) for path in (big, small))
    assert found.weight_bytes == own.weight_bytes + its.weight_bytes
    assert found.step_bytes == own.step_bytes + its.step_bytes
    assert found.kv_bytes == own.kv_bytes + its.kv_bytes
    contrasted = DecodingParams(contrast_beta=1, max_tokens=23, ignore_eos=True, seed=1)
    with LLM(big, amateur=small, kv_tokens=4 * 64, page_size=32) as llm:
        assert found.engine_kv_bytes == llm.runner.kv_bytes + llm.amateur.kv_bytes
        assert len(llm.generate([list(range(40)), list(range(1, 41))], contrasted)) == 2
    with LLM(big, amateur=small, kv_tokens=2 * 64 - 32, page_size=32) as llm, pytest.raises(CapacityError):
        llm.generate(list(range(40)), contrasted)


def test_an_amateur_of_fewer_tokens_or_beside_a_bare_shape_is_refused(tmp_path):
    with pytest.raises(BadRequest, match="the amateur has 49152 tokens and the model 262144; both must have"):
        kv_memory("gemma3-270m", amateur="smollm2-135m")
    with pytest.raises(BadRequest, match="reads beside a model, and a shape in numbers is none"):
        kv_memory(shape=CacheShape.of_heads(2, 1, 8), amateur="smollm2-135m")


def test_an_amateur_of_other_tokens_is_refused_as_where_it_is_loaded(tmp_path, monkeypatch):
    key, metadata = "tokenizer.ggml.tokens", byte_tokenizer_metadata()
    longer = metadata | {key: [*metadata[key], "more"]}
    longer |= {"tokenizer.ggml.token_type": [*metadata["tokenizer.ggml.token_type"], 1]}
    metadata[key] = [*metadata[key][1:257], metadata[key][0], *metadata[key][257:]]
    big = write_tiny_llm(tmp_path / "big.gguf")
    other = write_gguf(tmp_path / "other.gguf", tiny_source(TinySpec(vocab_size=258)), extra=metadata)
    more = write_gguf(tmp_path / "more.gguf", tiny_source(TinySpec(vocab_size=259)), extra=longer)
    for ask in (kv_memory, LLM):
        with pytest.raises(BadRequest, match=r"other\.gguf has other tokens than .*big\.gguf") as refused:
            ask(big, amateur=other)
        assert refused.value.code == "bad_amateur"
    assert kv_memory(big, amateur=more).n_strands == 2
    with LLM(big, amateur=more, kv_tokens=64):
        pass
    monkeypatch.setenv("UNSPOOL_CACHE", "/nowhere")
    assert kv_memory("smollm2-135m", amateur="smollm2-135m").n_strands == 2
    with pytest.raises(BadRequest, match="the amateur gemma3-270m has other tokens than smollm2-135m"):
        kv_memory("smollm2-135m", amateur="gemma3-270m")
    with pytest.raises(ModelNotFound, match="`unspool models pull smollm2-135m` fetches it"):
        kv_memory(big, amateur="smollm2-135m")


@pytest.fixture
def foreign(tmp_path):
    """Writes a GGUF file of another architecture with these keys."""

    def write(keys: dict[str, object]) -> Path:
        named = {
            "general.architecture": "strange",
            **{f"strange.{key}": value for key, value in keys.items()},
        }
        return write_gguf(tmp_path / "strange.gguf", replace(tiny_source(TinySpec()), metadata=named))

    return write


def test_a_model_of_latent_attention_is_worked_out_though_it_does_not_run_here(foreign):
    path = foreign(
        {
            "block_count": 60,
            "attention.kv_lora_rank": 512,
            "rope.dimension_count": 64,
            "context_length": 163_840,
        }
    )
    found = kv_memory(path)
    assert found.shape == CacheShape.of_latent(60, 512, 64, context_length=163_840)
    assert (found.token_bytes, found.engine_kv_bytes, found.step_bytes) == (69_120, None, None)
    assert found.weight_bytes > 0


@pytest.mark.parametrize(
    ("heads", "values"),
    [
        ({"attention.head_count": 8, "attention.head_count_kv": 2}, (2 * 2 * 32,) * 2),
        ({"attention.head_count": 8}, (2 * 8 * 32,) * 2),
        ({"attention.head_count": 8, "attention.head_count_kv": [2, 4]}, (128, 256)),
        ({"attention.head_count": 8, "attention.key_length": 64}, (2 * 8 * 64,) * 2),
    ],
)
def test_the_common_keys_of_an_unknown_architecture_are_read(foreign, heads, values):
    found = kv_memory(foreign({"block_count": 2, "embedding_length": 256, **heads}))
    assert found.shape.values == values
    assert not found.engine_runs_it


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"block_count": 2},
        {"block_count": 1 << 30, "attention.kv_lora_rank": 512, "rope.dimension_count": 64},
        {"block_count": 2, "attention.head_count": 8, "attention.head_count_kv": [2]},
        {
            "block_count": 2,
            "embedding_length": 256,
            "attention.head_count": 8,
            "attention.sliding_window": 64,
        },
    ],
)
def test_a_file_that_says_too_little_is_refused_as_what_it_is(foreign, keys):
    with pytest.raises(UnsupportedModel, match="architecture 'strange' is not supported"):
        kv_memory(foreign(keys))


def test_a_shape_takes_the_place_of_a_model():
    found = kv_memory(shape=CacheShape.of_heads(32, 8, 128), context_length=8192, weight_bytes=5 << 30)
    assert found.total_bytes == 6 << 30
    assert kv_memory(shape=CacheShape.of_heads(32, 8, 128)).context_length == 8192
    assert not kv_memory(shape=CacheShape.of_latent(60, 512, 64)).engine_runs_it


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "a model or a shape is measured"),
        ({"model": "smollm2-135m", "shape": CacheShape.of_heads(1, 1, 2)}, "a model or a shape is measured"),
        ({"model": 5}, "model must be a name or a path, got 5"),
        ({"model": "smollm2-135m", "context_length": 0}, r"context_length must be a whole number in \[1, "),
        ({"model": "smollm2-135m", "n_sequences": True}, "n_sequences must be a whole number"),
        ({"model": "smollm2-135m", "page_size": 24}, "page_size must be a power of two, got 24"),
        (
            {"model": "smollm2-135m", "kv_format": "fp8"},
            "kv_format must be one of f16, int8, int4, got 'fp8'",
        ),
    ],
)
def test_what_has_no_meaning_is_refused(settings, words):
    with pytest.raises(BadRequest, match=words):
        kv_memory(**settings)


def test_a_name_that_is_not_there_is_refused():
    with pytest.raises(ModelNotFound):
        kv_memory("no-such-model")
