"""Ids of the hard strings, as recorded from transformers and llama.cpp (tests/oracle/record_tokenizer.py)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unspool.models.tokenizer import Tokenizer, load_tokenizer
from unspool.models.weights.gguf import GgufSource

MODELS = ("smollm2-135m", "gemma3-270m", "qwen2.5-coder-1.5b")
DATA = Path(__file__).parents[3] / "data"

pytestmark = pytest.mark.model

_loaded: dict[str, Tokenizer] = {}


@pytest.fixture
def tokenizer_of(model_path: Callable[[str], Path]) -> Callable[[str], Tokenizer]:
    def load(name: str) -> Tokenizer:
        if name not in _loaded:
            with GgufSource(model_path(name)) as source:
                _loaded[name] = load_tokenizer(source)
        return _loaded[name]

    return load


def cases(name: str) -> list[dict[str, Any]]:
    recorded: list[dict[str, Any]] = json.loads((DATA / f"tokenizer_{name}.json").read_text())
    assert len(recorded) > 90
    return recorded


@pytest.mark.parametrize("name", MODELS)
def test_ids_equal_the_reference_on_every_hard_string(
    tokenizer_of: Callable[[str], Tokenizer], name: str
) -> None:
    tokenizer = tokenizer_of(name)
    for case in cases(name):
        assert tokenizer.encode(case["text"], add_bos=False) == case["plain"], case
        assert tokenizer.encode(case["text"], add_bos=False, parse_special=True) == case["parsed"], case


@pytest.mark.parametrize("name", MODELS)
def test_hard_strings_survive(tokenizer_of: Callable[[str], Tokenizer], name: str) -> None:
    tokenizer = tokenizer_of(name)
    for case in cases(name):
        ids, data = tokenizer.encode(case["text"]), case["text"].encode()
        assert b"".join(map(tokenizer.token_bytes, ids)) == tokenizer.decode_bytes(ids)
        if "\u2581" not in case["text"]:
            assert tokenizer.decode_bytes(ids) == data
        assert tokenizer.decode_bytes(tokenizer.encode_bytes(data)) == data


@pytest.mark.parametrize("name", MODELS)
def test_broken_characters_survive(tokenizer_of: Callable[[str], Tokenizer], name: str) -> None:
    tokenizer = tokenizer_of(name)
    for data in (
        b"\xff",
        b"a\xe4\xbdb",
        b"\xe4\xbd",
        b"\x80\x80 \xbf",
        "é".encode("latin-1"),
        b"\xed\xa0\x80",
    ):
        if not tokenizer.missing_bytes.intersection(data):
            assert tokenizer.decode_bytes(tokenizer.encode_bytes(data)) == data


@pytest.mark.parametrize(
    ("name", "bos_id", "adds_bos", "ends"),
    [
        ("smollm2-135m", 1, False, {0, 2}),
        ("gemma3-270m", 2, True, {1, 106}),
        ("qwen2.5-coder-1.5b", 151643, False, {151643, 151645, 151662, 151663, 151664}),
    ],
)
def test_begin_and_ends_of_the_catalogue(
    tokenizer_of: Callable[[str], Tokenizer], name: str, bos_id: int, adds_bos: bool, ends: set[int]
) -> None:
    tokenizer = tokenizer_of(name)
    assert (tokenizer.bos_id, tokenizer.adds_bos, tokenizer.eos_ids) == (bos_id, adds_bos, ends)
    assert not tokenizer.strips_leading_space


def test_gemma_has_exactly_one_bos(tokenizer_of: Callable[[str], Tokenizer]) -> None:
    tokenizer = tokenizer_of("gemma3-270m")
    assert tokenizer.encode("Hi") == [2, *tokenizer.encode("Hi", add_bos=False)]
    assert tokenizer.encode("<bos>Hi", parse_special=True) == tokenizer.encode("Hi")
    assert tokenizer.encode("<bos>Hi").count(2) == 1
