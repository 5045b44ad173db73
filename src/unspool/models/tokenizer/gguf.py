"""A tokenizer from the tokenizer.ggml.* keys of a GGUF file.

Two algorithms are known: "gpt2", byte-level BPE with merges, and "llama", SentencePiece BPE with scores. GGUF
carries no normalizer, and none is applied: what is encoded is the text as it is.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unspool.errors import ModelFileError, UnsupportedModel
from unspool.models.tokenizer.end_tokens import END_NAMES
from unspool.models.tokenizer.library import blamed_on
from unspool.models.tokenizer.merges import MAX_CHARACTERS, MAX_PIECES, derive_merges
from unspool.models.tokenizer.metadata import Fields
from unspool.models.tokenizer.parts import AddedPiece, Preparation, Start, TokenizerParts, TokenKind
from unspool.models.tokenizer.pieces import Pieces
from unspool.models.tokenizer.pre_tokenizers import splitter, word_rule
from unspool.models.tokenizer.spelling import SPACE_MARK, Spelling
from unspool.models.tokenizer.tokenizer import Tokenizer

_MODELS = "tokenizer.ggml.model"
_TOKENS = "tokenizer.ggml.tokens"
_TYPES = "tokenizer.ggml.token_type"
_MERGES = "tokenizer.ggml.merges"
_SCORES = "tokenizer.ggml.scores"

_ENDS = ("eos", "eot", "eom")
ROLE_NAMES = {  # the word in the file -> the name that chat templates use
    "bos": "bos_token",
    "eos": "eos_token",
    "unknown": "unk_token",
    "padding": "pad_token",
    "seperator": "sep_token",  # spelled so in the format
    "mask": "mask_token",
}
_SENTENCEPIECE_DEFAULTS = {"bos": 1, "eos": 2, "unknown": 0}  # of files that do not say


def tokenizer_from_gguf(path: Path, metadata: Mapping[str, Any]) -> Tokenizer:
    return Tokenizer(gguf_parts(path, metadata))


def gguf_parts(path: Path, metadata: Mapping[str, Any]) -> TokenizerParts:
    """What the tokenizer of a file is made of."""
    fields = Fields(path, metadata)
    model = fields.string(_MODELS)
    if model == "gpt2":
        return _byte_level(fields)
    if model == "llama":
        return _sentencepiece(fields)
    raise UnsupportedModel(
        f"{path}: {_MODELS}: is {model[:80]!r}, a tokenizer that is not known here; known: "
        "gpt2 (byte-level BPE), llama (SentencePiece BPE)"
    )


def _byte_level(fields: Fields) -> TokenizerParts:
    from tokenizers import models

    rule = word_rule(str(fields.path), fields.string("tokenizer.ggml.pre", "default"))
    tokens = _tokens(fields)
    vocabulary = _vocabulary(fields, tokens)
    roles = _roles(fields, len(tokens), {})
    kinds = _kinds(fields, tokens, roles)
    with _collector_paused():
        merges: list[Any] = fields.split_strings(_MERGES)
        try:
            with blamed_on(fields.path, _MERGES, "do not fit the tokens"):
                model = models.BPE(vocabulary, merges, ignore_merges=rule.takes_whole_words)
        except ModelFileError:
            _explain_merges(fields, vocabulary, merges)
            raise
        del merges  # before the collector comes to walk them
    words = Preparation(None, splitter(rule))
    return _parts(
        fields,
        tokens,
        kinds,
        roles,
        model=model,
        spelling=Spelling.BYTE_LEVEL,
        preparations=dict.fromkeys(Start, words),
        adds_bos=_adds_bos(fields, roles, rule.adds_bos),
        strips_leading_space=False,
    )


def _explain_merges(fields: Fields, vocabulary: Mapping[str, int], merges: Sequence[tuple[str, ...]]) -> None:
    for index, merge in enumerate(merges):
        field = f"{_MERGES}[{index}]"
        if len(merge) != 2:
            fields.fail(field, f"is {' '.join(merge)[:80]!r}, expected two pieces with a space between")
        for piece in (*merge, "".join(merge)):
            if piece not in vocabulary:
                fields.fail(field, f"needs the piece {piece[:80]!r}, which is not a token")


def _sentencepiece(fields: Fields) -> TokenizerParts:
    from tokenizers import models, normalizers

    tokens = _tokens(fields)
    vocabulary = _vocabulary(fields, tokens)
    roles = _roles(fields, len(tokens), _SENTENCEPIECE_DEFAULTS)
    kinds = _kinds(fields, tokens, roles)
    scores = fields.numbers(_SCORES, len(tokens))
    if scores is None:
        fields.fail(_SCORES, "is missing")
    if not np.isfinite(scores).all():
        fields.fail(_SCORES, "holds a value that is not finite")
    normal = np.flatnonzero(kinds == TokenKind.NORMAL)
    pieces = [tokens[i] for i in normal.tolist()]
    if len(pieces) > MAX_PIECES or sum(map(len, pieces)) > MAX_CHARACTERS:
        fields.fail(_TOKENS, f"hold more than {MAX_PIECES} pieces or {MAX_CHARACTERS} characters")
    _mark_unknown(kinds, roles)
    unknown = roles.get("unknown")
    with _collector_paused():
        model = models.BPE(
            vocabulary,
            derive_merges(pieces, scores[normal].astype(np.float64)),
            unk_token=None if unknown is None else tokens[unknown],
            fuse_unk=True,
            byte_fallback=bool((kinds == TokenKind.BYTE).any()),
        )
    marks = normalizers.Replace(" ", SPACE_MARK)
    adds_prefix = fields.flag("tokenizer.ggml.add_space_prefix", True)
    first = normalizers.Sequence([normalizers.Prepend(SPACE_MARK), marks]) if adds_prefix else marks
    return _parts(
        fields,
        tokens,
        kinds,
        roles,
        model=model,
        spelling=Spelling.SPACE_MARK,
        preparations={
            Start.TEXT: Preparation(first, None),
            Start.BYTES: Preparation(first, None),
            Start.INSIDE: Preparation(marks, None),
        },
        adds_bos=_adds_bos(fields, roles, True),
        strips_leading_space=adds_prefix,
    )


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Up to half a million merges are born at once; the cyclic collector would walk all of them several
    times."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _tokens(fields: Fields) -> list[str]:
    tokens = fields.strings(_TOKENS)
    if not tokens:
        fields.fail(_TOKENS, "is empty")
    for index, token in enumerate(tokens):
        if not token:
            tokens[index] = f"[EMPTY_{index}]"
    return tokens


def _vocabulary(fields: Fields, tokens: list[str]) -> dict[str, int]:
    vocabulary = dict(zip(tokens, range(len(tokens)), strict=True))
    if len(vocabulary) != len(tokens):
        again = next(i for i, token in enumerate(tokens) if vocabulary[token] != i)
        token = tokens[again]
        fields.fail(_TOKENS, f"hold {token[:80]!r} twice, as ids {again} and {vocabulary[token]}")
    return vocabulary


def _roles(fields: Fields, vocab_size: int, defaults: Mapping[str, int]) -> dict[str, int]:
    """The ids that the file gives a role: bos, eos, eot, ..."""
    roles = {role: token_id for role, token_id in defaults.items() if token_id < vocab_size}
    for role in dict.fromkeys((*ROLE_NAMES, *_ENDS)):
        token_id = fields.token_id(f"tokenizer.ggml.{role}_token_id", vocab_size)
        if token_id is not None:
            roles[role] = token_id
    return roles


def _kinds(fields: Fields, tokens: list[str], roles: Mapping[str, int]) -> npt.NDArray[np.uint8]:
    """TokenKind of every token (V,). Begin and ends are control tokens whatever the file calls them."""
    types = fields.numbers(_TYPES, len(tokens))
    if types is None:
        types = np.full(len(tokens), TokenKind.NORMAL, dtype=np.uint8)
    elif types.dtype.kind == "f" or (types.size and not 0 <= types.min() <= types.max() <= max(TokenKind)):
        fields.fail(_TYPES, f"holds a value outside 0 to {max(TokenKind):d}")
    kinds: npt.NDArray[np.uint8] = np.where(types == 0, TokenKind.NORMAL, types).astype(np.uint8)
    if not (kinds == TokenKind.CONTROL).any():  # files older than token types
        kinds[[i for i, token in enumerate(tokens) if token in END_NAMES]] = TokenKind.CONTROL
    for role in ("bos", *_ENDS):
        if role in roles:
            kinds[roles[role]] = TokenKind.CONTROL
    return kinds


def _mark_unknown(kinds: npt.NDArray[np.uint8], roles: Mapping[str, int]) -> None:
    """What stands for text without a token is unknown, even where the file calls it control (Gemma)."""
    if "unknown" in roles and kinds[roles["unknown"]] == TokenKind.CONTROL:
        kinds[roles["unknown"]] = TokenKind.UNKNOWN


def _adds_bos(fields: Fields, roles: Mapping[str, int], default: bool) -> bool:
    adds = fields.flag("tokenizer.ggml.add_bos_token", default and "bos" in roles)
    if adds and "bos" not in roles:
        fields.fail("tokenizer.ggml.add_bos_token", "is true, but there is no tokenizer.ggml.bos_token_id")
    return adds


def _parts(
    fields: Fields,
    tokens: list[str],
    kinds: npt.NDArray[np.uint8],
    roles: Mapping[str, int],
    *,
    model: Any,
    spelling: Spelling,
    preparations: Mapping[Start, Preparation],
    adds_bos: bool,
    strips_leading_space: bool,
) -> TokenizerParts:
    control = frozenset(np.flatnonzero(np.isin(kinds, (TokenKind.CONTROL, TokenKind.UNKNOWN))).tolist())
    found = np.flatnonzero(np.isin(kinds, (TokenKind.CONTROL, TokenKind.UNKNOWN, TokenKind.USER_DEFINED)))
    spaces_match_marks = spelling is Spelling.SPACE_MARK and not strips_leading_space
    eats_right = _eats_space_right(fields, spelling)
    added = tuple(
        AddedPiece(
            token_id=i,
            text=tokens[i],
            is_control=i in control,
            eats_space_right=eats_right and i in control and tokens[i] not in _KEEP_SPACE,
            # SentencePiece looks for its user-defined runs of spaces after spaces became marks.
            normalized=spaces_match_marks and i not in control and " " in tokens[i],
        )
        for i in found.tolist()
    )
    declared = {roles[role] for role in _ENDS if role in roles}
    return TokenizerParts(
        name=str(fields.path),
        model=model,
        pieces=Pieces.of(tokens),
        spelling=spelling,
        kinds=kinds,
        added=added,
        preparations=preparations,
        bos_id=roles.get("bos"),
        eos_ids=frozenset(declared | {i for i in control if tokens[i] in END_NAMES}),
        adds_bos=adds_bos,
        strips_leading_space=strips_leading_space,
        restarts=True,
        special_tokens={ROLE_NAMES[role]: tokens[i] for role, i in roles.items() if role in ROLE_NAMES},
    )


_KEEP_SPACE = frozenset({"<unk>", "<s>", "<|endoftext|>"})


def _eats_space_right(fields: Fields, spelling: Spelling) -> bool:
    """Phi-3 was trained with the blanks after its control tokens removed; the format has no key for that."""
    return spelling is Spelling.SPACE_MARK and fields.string("general.architecture", "") == "phi3"
