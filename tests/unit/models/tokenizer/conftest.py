"""Two vocabularies small enough to tokenize by hand, as the metadata a GGUF file would hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from unspool.models.tokenizer import Tokenizer, load_tokenizer
from unspool.models.tokenizer.spelling import CHARACTER_OF_BYTE, SPACE_MARK, fallback_piece

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


class FakeSource:
    """An open GGUF file with metadata and no tensors."""

    format = "gguf"

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self.path = Path("tiny.gguf")
        self.metadata = metadata

    def names(self) -> tuple[str, ...]:
        return ()

    def tensor(self, name: str) -> Any:
        raise AssertionError(f"a tokenizer needs no tensor, asked for {name}")

    def __contains__(self, name: object) -> bool:
        return False

    def close(self) -> None:
        pass


@pytest.fixture
def byte_level_metadata() -> dict[str, Any]:
    """Ids 0 to 255 are the bytes, then six merged pieces, and from 262 four added tokens."""
    merged = ["he", "ll", "hell", "Ġhe", "<|", "|>"]
    added = ["<|begin|>", "<|im_end|>", "<tool>", "[PAD0]"]
    tokens = [*CHARACTER_OF_BYTE, *merged, *added]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [NORMAL] * 262 + [CONTROL, CONTROL, USER_DEFINED, UNUSED],
        "tokenizer.ggml.merges": ["h e", "l l", "Ġ he", "he ll", "< |", "| >"],
        "tokenizer.ggml.bos_token_id": 262,
        "tokenizer.ggml.eos_token_id": 263,
    }


@pytest.fixture
def sentencepiece_metadata() -> dict[str, Any]:
    """<unk> <s> </s>, from id 3 the byte tokens, from 259 pieces with scores, then user-defined ones."""
    pieces = [SPACE_MARK, *"abcs<>/", "ab", "bc", "abc", SPACE_MARK + "a", SPACE_MARK + "abc", "s>", "/s>"]
    user_defined = ["  ", "   ", "\n\n", "<tool>"]
    tokens = ["<unk>", "<s>", "</s>", *map(fallback_piece, range(256)), *pieces, *user_defined]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * 259 + [float(-i) for i in range(len(pieces))] + [0.0] * 4,
        "tokenizer.ggml.token_type": [UNKNOWN, CONTROL, CONTROL]
        + [BYTE] * 256
        + [NORMAL] * len(pieces)
        + [USER_DEFINED] * 4,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }


@pytest.fixture
def load() -> Callable[[Mapping[str, Any]], Tokenizer]:
    return lambda metadata: load_tokenizer(FakeSource(metadata))
