"""What the readers of model files hand to `Tokenizer`: one description, whatever the file format."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from unspool.light_dataclass import dataclass
from unspool.models.tokenizer.pieces import Pieces
from unspool.models.tokenizer.spelling import Spelling


class TokenKind(enum.IntEnum):
    """What a token is for; the numbers are those of GGUF's tokenizer.ggml.token_type."""

    NORMAL = 1  # ordinary text
    UNKNOWN = 2  # stands for text that cannot be spelled; adds no text
    CONTROL = 3  # steers the model, is never text: <s>, <|im_end|>
    USER_DEFINED = 4  # text that is always one token: <tool_call>, a run of 20 spaces
    UNUSED = 5  # padding of the vocabulary
    BYTE = 6  # one byte that no other token covers


class Start(enum.Enum):
    """How a stretch of text is prepared before it meets the vocabulary."""

    TEXT = enum.auto()  # as the model's authors do: normalization, the space before the first word
    BYTES = enum.auto()  # the space before the first word only: nothing that loses bytes
    INSIDE = enum.auto()  # neither: the continuation of something already encoded


@dataclass(frozen=True, slots=True)
class Preparation:
    """A normalizer and a pre-tokenizer of the tokenizers library, or None."""

    normalizer: Any
    pre_tokenizer: Any


@dataclass(frozen=True, slots=True)
class AddedPiece:
    """A token that is found in text before the algorithm runs."""

    token_id: int
    text: str
    is_control: bool
    eats_space_left: bool = False
    eats_space_right: bool = False
    whole_word: bool = False
    normalized: bool = False  # look for it after normalization


@dataclass(frozen=True, slots=True)
class TokenizerParts:
    """V tokens and how text becomes them."""

    name: str  # the file, for messages
    model: Any  # tokenizers.models.BPE, shared by every encoder built on it
    pieces: Pieces  # V of them
    spelling: Spelling
    kinds: npt.NDArray[np.uint8]  # (V,) TokenKind
    added: tuple[AddedPiece, ...]  # control and user-defined tokens, by ascending id
    preparations: Mapping[Start, Preparation]
    bos_id: int | None
    eos_ids: frozenset[int]
    adds_bos: bool  # the model wants BOS before every text
    strips_leading_space: bool  # encoding puts a space before the first word, so decoding takes it away
    restarts: bool  # what follows an added token is prepared like the beginning of a text
    special_tokens: Mapping[str, str]  # "bos_token" -> "<s>", the names that chat templates use
