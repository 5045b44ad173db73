"""A tokenizer from tokenizer.json beside safetensors weights, and from the configs around it.

The pipeline in tokenizer.json is used as it stands; only what `Tokenizer` promises on top is worked out here:
how pieces become bytes, which tokens are control tokens, and what to leave out when bytes must survive.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from unspool.errors import ModelFileError, UnsupportedModel
from unspool.models.tokenizer.end_tokens import END_NAMES
from unspool.models.tokenizer.library import blamed_on
from unspool.models.tokenizer.parts import AddedPiece, Preparation, Start, TokenizerParts, TokenKind
from unspool.models.tokenizer.pieces import Pieces
from unspool.models.tokenizer.spelling import SPACE_MARK, Spelling, fallback_piece
from unspool.models.tokenizer.tokenizer import Tokenizer
from unspool.models.weights.json_file import checked_text, read_optional_json_object

FILE = "tokenizer.json"
MAX_FILE_BYTES = 1 << 28
MAX_VOCABULARY = 1 << 24  # bounds what a hostile vocab_size or token id can make us allocate

_ROLES = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")
_ENDS = ("eos_token_id", "eot_token_id", "eom_token_id")


def tokenizer_from_folder(folder: Path, metadata: Mapping[str, Any]) -> Tokenizer:
    """`folder` and `metadata` are those of a `WeightSource`."""
    return Tokenizer(tokenizer_parts(folder, metadata))


def tokenizer_parts(folder: Path, metadata: Mapping[str, Any]) -> TokenizerParts:
    """What the tokenizer of a folder is made of."""
    file = folder / FILE
    pipeline = _read_pipeline(file)
    config = read_optional_json_object(folder / "tokenizer_config.json")
    return _parts(file, pipeline, config, metadata)


def _read_pipeline(file: Path) -> Any:
    from tokenizers import Tokenizer as Pipeline
    from tokenizers import models

    if not file.is_file():
        raise ModelFileError(file, "file", "is missing; save the tokenizer in its fast form (tokenizer.json)")
    if file.stat().st_size > MAX_FILE_BYTES:
        raise ModelFileError(file, "file", f"is longer than {MAX_FILE_BYTES} bytes")
    with blamed_on(file, "file", "is not a tokenizer"):
        pipeline = Pipeline.from_file(str(file))
    if not isinstance(pipeline.model, models.BPE):
        kind = type(pipeline.model).__name__
        raise UnsupportedModel(f"{file}: model: is {kind!r}, a tokenizer that is not known here; known: BPE")
    return pipeline


def _parts(
    file: Path, pipeline: Any, config: Mapping[str, Any], metadata: Mapping[str, Any]
) -> TokenizerParts:
    spelling, strips = _spelling(file, pipeline)
    added = tuple(
        AddedPiece(
            token_id=token_id,
            text=token.content,
            is_control=token.special,
            eats_space_left=token.lstrip,
            eats_space_right=token.rstrip,
            whole_word=token.single_word,
            normalized=token.normalized,
        )
        for token_id, token in sorted(pipeline.get_added_tokens_decoder().items())
    )
    ids = pipeline.get_vocab(with_added_tokens=True)
    kinds = _kinds(file, pipeline, ids, added, metadata.get("vocab_size"))
    special_tokens = _special_tokens(file, config)
    bos_id = _id_of(pipeline, special_tokens.get("bos_token"))
    eos_id = _id_of(pipeline, special_tokens.get("eos_token"))
    ends = _declared_ends(file, metadata, len(kinds))
    ends |= {piece.token_id for piece in added if piece.is_control and piece.text in END_NAMES}
    return TokenizerParts(
        name=str(file),
        model=pipeline.model,
        pieces=_pieces(ids, len(kinds)),
        spelling=spelling,
        kinds=kinds,
        added=added,
        preparations=_preparations(pipeline, spelling, strips),
        bos_id=bos_id,
        eos_ids=frozenset(ends if eos_id is None else {*ends, eos_id}),
        adds_bos=_adds_bos(file, pipeline, config, bos_id),
        strips_leading_space=strips,
        restarts=not any(
            node.get("prepend_scheme") == "first" for node in flat_state(pipeline.pre_tokenizer)
        ),
        special_tokens=special_tokens,
    )


def _spelling(file: Path, pipeline: Any) -> tuple[Spelling, bool]:
    """How pieces become bytes, and whether a leading space is taken away: both are said by the decoder."""
    nodes = list(flat_state(pipeline.decoder))
    kinds = {node["type"] for node in nodes}
    if kinds == {"ByteLevel"}:
        return Spelling.BYTE_LEVEL, False
    unmarks = any(node["type"] == "Replace" and node["pattern"] == {"String": SPACE_MARK} for node in nodes)
    if kinds <= {"Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"} and (
        unmarks or "Metaspace" in kinds
    ):
        strips = any(node["type"] == "Strip" and node["content"] == " " and node["start"] for node in nodes)
        strips |= any(node["type"] == "Metaspace" and node["prepend_scheme"] != "never" for node in nodes)
        return Spelling.SPACE_MARK, strips
    raise UnsupportedModel(
        f"{file}: decoder: is {', '.join(sorted(kinds)) or 'missing'}, which is not known here; known: "
        "ByteLevel, or Metaspace, or Replace of the space mark with ByteFallback, Fuse and Strip"
    )


def flat_state(component: Any) -> list[dict[str, Any]]:
    """The JSON of a component of the tokenizers library, or of the parts of a sequence; [] for None."""
    return _flat(None if component is None else json.loads(component.__getstate__()))


def _flat(node: dict[str, Any] | None) -> list[dict[str, Any]]:
    """A component and, in place of a sequence, what it is made of."""
    if node is None:
        return []
    if node["type"] != "Sequence":
        return [node]
    inner = next(value for key, value in node.items() if key != "type")
    return [leaf for child in inner for leaf in _flat(child)]


def _preparations(pipeline: Any, spelling: Spelling, strips: bool) -> dict[Start, Preparation]:
    """As the file says for text. For bytes: no normalization, and exactly one space before the first word."""
    from tokenizers import normalizers, pre_tokenizers

    words = flat_state(pipeline.pre_tokenizer)
    for node in words:
        if node["type"] == "Metaspace":
            node["prepend_scheme"] = "never"
        elif node["type"] == "ByteLevel":
            node["add_prefix_space"] = False
    kept = [node for node in flat_state(pipeline.normalizer) if node["type"] == "ByteLevel"]
    if spelling is Spelling.SPACE_MARK:
        kept = [{"type": "Replace", "pattern": {"String": " "}, "content": SPACE_MARK}]
    prefix = [{"type": "Prepend", "prepend": SPACE_MARK}] if strips else []

    def preparation(before: list[dict[str, Any]]) -> Preparation:
        normalizer, pre_tokenizer = normalizers.Sequence([]), pre_tokenizers.Sequence([])
        state = {"type": "Sequence", "normalizers": [*before, *kept]}
        normalizer.__setstate__(json.dumps(state).encode())
        pre_tokenizer.__setstate__(json.dumps({"type": "Sequence", "pretokenizers": words}).encode())
        return Preparation(normalizer, pre_tokenizer)

    return {
        Start.TEXT: Preparation(pipeline.normalizer, pipeline.pre_tokenizer),
        Start.BYTES: preparation(prefix),
        Start.INSIDE: preparation([]),
    }


def _pieces(ids_of_pieces: Mapping[str, int], n_rows: int) -> Pieces:
    pieces = [""] * n_rows
    for piece, token_id in ids_of_pieces.items():
        pieces[token_id] = piece
    return Pieces.of(pieces)


def _kinds(
    file: Path,
    pipeline: Any,
    ids_of_pieces: Mapping[str, int],
    added: tuple[AddedPiece, ...],
    vocab_size: object,
) -> Any:
    """TokenKind of every row of the output layer (V,), which may have more rows than there are tokens."""
    ids = np.fromiter(ids_of_pieces.values(), dtype=np.int64)
    n_rows = int(ids.max(initial=-1)) + 1
    if isinstance(vocab_size, int) and not isinstance(vocab_size, bool):
        n_rows = max(n_rows, vocab_size)
    if not 0 < n_rows <= MAX_VOCABULARY:
        raise ModelFileError(file, "model.vocab", f"needs {n_rows} rows, expected 1 to {MAX_VOCABULARY}")
    kinds = np.full(n_rows, TokenKind.UNUSED, dtype=np.uint8)
    kinds[ids] = TokenKind.NORMAL
    if pipeline.model.byte_fallback:
        for byte in range(256):
            if (token_id := pipeline.model.token_to_id(fallback_piece(byte))) is not None:
                kinds[token_id] = TokenKind.BYTE
    for piece in added:
        kinds[piece.token_id] = TokenKind.CONTROL if piece.is_control else TokenKind.USER_DEFINED
    unknown = _id_of(pipeline, pipeline.model.unk_token)
    if unknown is not None:
        kinds[unknown] = TokenKind.UNKNOWN
    return kinds


def _id_of(pipeline: Any, text: str | None) -> int | None:
    found: int | None = None if text is None else pipeline.token_to_id(text)
    return found


def _special_tokens(file: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """Names in chat templates ("bos_token") to texts, from tokenizer_config.json or the older map."""
    older = read_optional_json_object(file.parent / "special_tokens_map.json")
    result = {}
    for role in _ROLES:
        value = config.get(role, older.get(role))
        if isinstance(value, dict):
            value = value.get("content")
        if value is None:
            continue
        if not isinstance(value, str):
            raise ModelFileError(
                file.parent / "tokenizer_config.json", role, f"is a {type(value).__name__}, expected a string"
            )
        result[role] = checked_text(file.parent / "tokenizer_config.json", role, value)
    return result


def _declared_ends(file: Path, metadata: Mapping[str, Any], n_rows: int) -> set[int]:
    """The ids that config.json and generation_config.json call ends: one number or a list."""
    generation = metadata.get("generation")
    ends: set[int] = set()
    for name, config in (("config.json", metadata), ("generation_config.json", generation)):
        for key in _ENDS:
            value = config.get(key) if isinstance(config, Mapping) else None
            for token_id in value if isinstance(value, list | tuple) else [value]:
                if token_id is None:
                    continue
                if type(token_id) is not int or not 0 <= token_id < n_rows:
                    problem = f"is {str(value)[:80]}, expected token ids from 0 to {n_rows - 1}"
                    raise ModelFileError(file.parent / name, key, problem)
                ends.add(token_id)
    return ends


def _adds_bos(file: Path, pipeline: Any, config: Mapping[str, Any], bos_id: int | None) -> bool:
    """The explicit flag, or else what the file's post-processor does to an empty text."""
    if bos_id is None:
        return False
    flag = config.get("add_bos_token")
    if isinstance(flag, bool):
        return flag
    with blamed_on(file, "post_processor", "fails on an empty text"):
        return bool(pipeline.encode("", add_special_tokens=True).ids[:1] == [bos_id])
