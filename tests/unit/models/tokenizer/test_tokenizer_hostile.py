"""Broken and hostile descriptions: each is a typed error that names the file and the field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unspool.errors import ModelFileError, UnspoolError, UnsupportedModel
from unspool.models.tokenizer import Tokenizer, load_tokenizer
from unspool.models.tokenizer.pre_tokenizers import WORD_RULES

Load = Callable[[Mapping[str, Any]], Tokenizer]
Metadata = dict[str, Any]
MISSING = object()

BYTE_LEVEL_CASES = [
    ("tokenizer.ggml.model", MISSING, "is missing"),
    ("tokenizer.ggml.model", 3, "expected a string"),
    ("tokenizer.ggml.pre", ["gpt-2"], "expected a string"),
    ("tokenizer.ggml.tokens", MISSING, "is missing"),
    ("tokenizer.ggml.tokens", [], "is empty"),
    ("tokenizer.ggml.tokens", "abc", "expected an array of strings"),
    ("tokenizer.ggml.tokens", 7, "expected an array of strings"),
    ("tokenizer.ggml.merges", MISSING, "is missing"),
    ("tokenizer.ggml.token_type", [1, 2, 3], "has 3 entries for 266 tokens"),
    ("tokenizer.ggml.token_type", [9] * 266, "outside 0 to 6"),
    ("tokenizer.ggml.token_type", [-1] * 266, "outside 0 to 6"),
    ("tokenizer.ggml.token_type", [1.5] * 266, "outside 0 to 6"),
    ("tokenizer.ggml.token_type", ["x"] * 266, "expected an array of numbers"),
    ("tokenizer.ggml.token_type", "x" * 266, "expected an array of numbers"),
    ("tokenizer.ggml.token_type", [[1], [1, 2]] * 133, "expected an array of numbers"),
    ("tokenizer.ggml.token_type", np.ones((266, 2), np.int32), "expected an array of numbers"),
    ("tokenizer.ggml.bos_token_id", 266, "is 266, outside the vocabulary of 266 tokens"),
    ("tokenizer.ggml.eos_token_id", -1, "is -1, outside the vocabulary"),
    ("tokenizer.ggml.eos_token_id", "2", "expected a token id"),
    ("tokenizer.ggml.eot_token_id", True, "expected a token id"),
    ("tokenizer.ggml.add_bos_token", 1, "expected true or false"),
]


def changed(metadata: Metadata, key: str, value: object) -> Metadata:
    return {k: v for k, v in (metadata | {key: value}).items() if v is not MISSING}


@pytest.mark.parametrize(("key", "value", "problem"), BYTE_LEVEL_CASES)
def test_a_broken_field_is_named(
    load: Load, byte_level_metadata: Metadata, key: str, value: object, problem: str
) -> None:
    with pytest.raises(ModelFileError) as error:
        load(changed(byte_level_metadata, key, value))
    assert str(error.value).startswith(f"tiny.gguf: {key}: ")
    assert problem in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("merges", "field", "problem"),
    [
        (["h e", "q zz"], "merges[1]", "needs the piece 'zz', which is not a token"),
        (["h", "h e"], "merges[0]", "is 'h', expected two pieces"),
        (["h e l"], "merges[0]", "expected two pieces"),
        (["x y"], "merges[0]", "needs the piece 'xy'"),
        ([3], "merges[0]", "is 3, expected a string"),
    ],
)
def test_a_merge_that_cannot_be_is_named(
    load: Load, byte_level_metadata: Metadata, merges: list[Any], field: str, problem: str
) -> None:
    with pytest.raises(ModelFileError) as error:
        load(byte_level_metadata | {"tokenizer.ggml.merges": merges})
    assert error.value.field == f"tokenizer.ggml.{field}"
    assert problem in str(error.value)


def test_a_token_that_appears_twice_is_named_with_both_ids(load: Load, byte_level_metadata: Metadata) -> None:
    byte_level_metadata["tokenizer.ggml.tokens"][265] = "<tool>"
    with pytest.raises(ModelFileError, match="hold '<tool>' twice, as ids 264 and 265"):
        load(byte_level_metadata)


def test_empty_tokens_get_names_of_their_own(load: Load, byte_level_metadata: Metadata) -> None:
    byte_level_metadata["tokenizer.ggml.tokens"][264:] = ["", ""]
    assert load(byte_level_metadata).vocab_size == 266


def test_bos_that_is_wanted_must_exist(load: Load, byte_level_metadata: Metadata) -> None:
    del byte_level_metadata["tokenizer.ggml.bos_token_id"]
    with pytest.raises(ModelFileError, match="is true, but there is no"):
        load(byte_level_metadata | {"tokenizer.ggml.add_bos_token": True})


@pytest.mark.parametrize("model", ["bert", "t5", "rwkv", "plamo2", ""])
def test_another_algorithm_is_refused_by_name(load: Load, byte_level_metadata: Metadata, model: str) -> None:
    with pytest.raises(UnsupportedModel, match=f"is '{model}', .* known: gpt2 .*, llama"):
        load(byte_level_metadata | {"tokenizer.ggml.model": model})


def test_an_unknown_way_to_split_words_is_refused_with_the_known_ones(
    load: Load, byte_level_metadata: Metadata
) -> None:
    with pytest.raises(UnsupportedModel) as error:
        load(byte_level_metadata | {"tokenizer.ggml.pre": "kimi-k2"})
    assert "'kimi-k2'" in str(error.value)
    assert all(name in str(error.value) for name in WORD_RULES)


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("tokenizer.ggml.scores", MISSING, "is missing"),
        ("tokenizer.ggml.scores", [0.0], "has 1 entries"),
        ("tokenizer.ggml.scores", None, "is missing"),
        ("tokenizer.ggml.add_space_prefix", "yes", "expected true or false"),
        ("tokenizer.ggml.unknown_token_id", 1 << 40, "outside the vocabulary"),
    ],
)
def test_a_broken_sentencepiece_field_is_named(
    load: Load, sentencepiece_metadata: Metadata, key: str, value: object, problem: str
) -> None:
    with pytest.raises(ModelFileError) as error:
        load(changed(sentencepiece_metadata, key, value))
    assert error.value.field == key
    assert problem in str(error.value)


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_scores_must_be_finite(load: Load, sentencepiece_metadata: Metadata, score: float) -> None:
    sentencepiece_metadata["tokenizer.ggml.scores"][260] = score
    with pytest.raises(ModelFileError, match="not finite"):
        load(sentencepiece_metadata)


def test_pieces_without_bound_are_refused(load: Load, sentencepiece_metadata: Metadata) -> None:
    sentencepiece_metadata["tokenizer.ggml.tokens"][260] = "a" * ((1 << 23) + 1)
    with pytest.raises(ModelFileError, match="hold more than"):
        load(sentencepiece_metadata)


def test_weights_of_another_format_are_refused() -> None:
    class Source:
        path = "model.bin"
        format = "pickle"

    with pytest.raises(UnsupportedModel, match="'pickle'"):
        load_tokenizer(Source())  # type: ignore[arg-type]


_junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=5),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_junk_in_any_field_is_a_typed_error_or_a_tokenizer_that_works(
    load: Load, byte_level_metadata: Metadata, sentencepiece_metadata: Metadata, data: st.DataObject
) -> None:
    metadata = dict(data.draw(st.sampled_from([byte_level_metadata, sentencepiece_metadata])))
    for key in data.draw(st.lists(st.sampled_from(sorted(metadata)), min_size=1, max_size=3)):
        old = metadata[key]
        if isinstance(old, list) and old and data.draw(st.booleans()):
            metadata[key] = list(old)
            metadata[key][data.draw(st.integers(0, len(old) - 1))] = data.draw(_junk)
        else:
            metadata[key] = data.draw(_junk)
    try:
        tokenizer = load(metadata)
    except UnspoolError:
        return
    for parse_special in (False, True):
        ids = tokenizer.encode("hello <|im_end|> abc", parse_special=parse_special)
        assert all(0 <= i < tokenizer.vocab_size for i in ids)
        tokenizer.decode(ids)
