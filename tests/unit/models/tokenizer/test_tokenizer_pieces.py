"""All of a vocabulary's bytes at once are the bytes of each token, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from unspool.loading import open_model
from unspool.models.tokenizer import Tokenizer
from unspool.models.tokenizer.pieces import Pieces

Load = Callable[[Mapping[str, Any]], Tokenizer]


def assert_all_at_once_is_one_by_one(tokenizer: Tokenizer) -> None:
    data, borders = tokenizer.all_token_bytes()
    each = [data[start:end] for start, end in pairwise(borders.tolist())]
    assert each == [tokenizer.token_bytes(token_id) for token_id in range(tokenizer.vocab_size)]


def test_of_a_byte_level_vocabulary(load: Load, byte_level_metadata: dict[str, Any]) -> None:
    assert_all_at_once_is_one_by_one(load(byte_level_metadata))


def test_of_one_whose_pieces_are_not_all_of_its_alphabet(
    load: Load, byte_level_metadata: dict[str, Any]
) -> None:
    strange = ["世界", "a b", "\u0144", "😀", "\U0010ffff"]  # the alphabet ends with U+0143
    byte_level_metadata["tokenizer.ggml.tokens"] += strange
    byte_level_metadata["tokenizer.ggml.token_type"] += [1] * len(strange)
    tokenizer = load(byte_level_metadata)
    assert [tokenizer.token_bytes(266 + i) for i in range(5)] == [
        "世界".encode(), b"a b", "\u0144".encode(), "😀".encode(), "\U0010ffff".encode()
    ]  # fmt: skip
    assert_all_at_once_is_one_by_one(tokenizer)


def test_of_a_sentencepiece_vocabulary(load: Load, sentencepiece_metadata: dict[str, Any]) -> None:
    sentencepiece_metadata["tokenizer.ggml.tokens"] += ["▁é世😀▁", "<0xE4>x"]
    sentencepiece_metadata["tokenizer.ggml.token_type"] += [1, 1]
    sentencepiece_metadata["tokenizer.ggml.scores"] += [-50.0, -51.0]
    assert_all_at_once_is_one_by_one(load(sentencepiece_metadata))


@pytest.mark.model
@pytest.mark.parametrize("name", ["smollm2-135m", "gemma3-270m"])
def test_of_real_vocabularies(name: str, model_path: Callable[[str], Any]) -> None:
    loaded = open_model(model_path(name))
    try:
        assert_all_at_once_is_one_by_one(loaded.tokenizer)
    finally:
        loaded.close()


def test_pieces_are_those_that_were_given() -> None:
    given = ["a", "", "▁世", "😀x", ""]
    pieces = Pieces.of(given)
    assert [pieces[i] for i in range(5)] == given
    assert np.array_equal(pieces.ends, [0, 1, 1, 3, 5, 5])
    assert Pieces.of([]).text == ""
