"""What a GGUF file says about a tokenizer, from the tokenizer.json of a Hugging Face folder.

GGUF names a tokenizer instead of describing it: byte-level BPE with one of the known ways of cutting words,
or SentencePiece, whose merges follow from scores. So a tokenizer.json is taken apart and looked up, and one
that is none of these is refused. Some habits are lost, as in every GGUF file: NFC, for there is no normalizer
(nearly all texts are in NFC already); Metaspace's, which puts no space before a text that begins with one, or
before what follows a control token, where SentencePiece does; and, where spaces are marked, which of two ways
to make one piece comes first, and how runs of spaces are cut that are longer than any token.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np

from unspool.errors import brief
from unspool.models.chat_sources import template_sources
from unspool.models.conversion.untold import untold
from unspool.models.tokenizer.end_tokens import END_NAMES
from unspool.models.tokenizer.gguf import ROLE_NAMES
from unspool.models.tokenizer.merges import derive_merges
from unspool.models.tokenizer.parts import AddedPiece, Start, TokenizerParts, TokenKind
from unspool.models.tokenizer.pre_tokenizers import GPT2_WORDS, WORD_RULES
from unspool.models.tokenizer.spelling import SPACE_MARK, Spelling
from unspool.models.tokenizer.tokenizer_json import FILE, flat_state, tokenizer_parts
from unspool.models.weights.base import WeightSource
from unspool.models.weights.gguf_writer import Value
from unspool.types import F32

_KEY: Final = "tokenizer.ggml."
TEMPLATE_KEY: Final = "tokenizer.chat_template"
_MARKING: Final = (  # what normalizers do that only mark spaces
    {"type": "Prepend", "prepend": SPACE_MARK},
    {"type": "Replace", "pattern": {"String": " "}, "content": SPACE_MARK},
)


def folder_parts(source: WeightSource, n_rows: int) -> TokenizerParts:
    """The folder's tokenizer, with a token for each row of the network's embedding. UnsupportedModel where
    there are more tokens than rows: other readers take none of them then."""
    file = source.path / FILE
    parts = tokenizer_parts(source.path, {**source.metadata, "vocab_size": n_rows})
    if len(parts.kinds) > n_rows:
        raise untold(file, f"a vocabulary of {len(parts.kinds)} tokens with {n_rows} rows of weights")
    return parts


def word_values(source: WeightSource, parts: TokenizerParts) -> dict[str, Value]:
    """Metadata keys, chat templates too, with their values; UnsupportedModel where a file cannot say it."""
    file = source.path / FILE
    model = json.loads(parts.model.__getstate__())
    for trait in ("continuing_subword_prefix", "end_of_word_suffix", "dropout"):
        if model.get(trait):
            raise untold(file, f"its {trait}")
    texts = _texts(parts)
    values: dict[str, Value] = {
        "tokens": texts,
        "token_type": np.asarray(parts.kinds, dtype="<i4"),
        "add_bos_token": parts.adds_bos,
    }
    ids = {text: i for i, text in enumerate(texts)}
    roles = {role: ids.get(parts.special_tokens.get(name, "")) for role, name in ROLE_NAMES.items()}
    values |= {f"{role}_token_id": token_id for role, token_id in roles.items() if token_id is not None}
    free = [role for role in ("eos", "eot", "eom") if roles.get(role) is None]
    ends = _not_known(parts, sorted(parts.eos_ids - {roles["eos"]}))
    values |= {f"{role}_token_id": token_id for role, token_id in zip(free, ends, strict=False)}
    if parts.spelling is Spelling.BYTE_LEVEL:
        values |= _byte_level(parts, model, file)
    else:
        values |= _sentencepiece(parts, model, texts, file)
    templates = template_sources(source)
    others = sorted(set(templates) - {"default"})
    result = {f"{_KEY}{key}": value for key, value in values.items()}
    result |= {f"{TEMPLATE_KEY}.{name}": templates[name] for name in others}
    if others:
        result[f"{TEMPLATE_KEY}s"] = others
    if "default" in templates:
        result[TEMPLATE_KEY] = templates["default"]
    return result


def is_run(parts: TokenizerParts, piece: AddedPiece) -> bool:
    """Whether a token is a run of spaces, spelled in marks (Gemma's). A folder has merges for them, and a
    file looks for them before anything is merged: the same for runs that a token covers."""
    is_text = parts.spelling is Spelling.SPACE_MARK and not piece.is_control
    return is_text and len(piece.text) > 1 and not piece.text.strip(SPACE_MARK)


def _texts(parts: TokenizerParts) -> list[str]:
    """How the file spells each token; rows that only pad the vocabulary get a name that no text has."""
    texts = [parts.pieces[i] for i in range(len(parts.kinds))]
    for piece in parts.added:
        texts[piece.token_id] = piece.text.replace(SPACE_MARK, " ") if is_run(parts, piece) else piece.text
    taken = set(texts)
    for i, text in enumerate(texts):
        if not text:
            texts[i] = next(name for k in count() if (name := f"[PAD{i}{'_' * k}]") not in taken)
    return texts


def _not_known(parts: TokenizerParts, ends: Sequence[int]) -> list[int]:
    """Of these ends, those that readers do not know by their names."""
    known = {piece.token_id for piece in parts.added if piece.is_control and piece.text in END_NAMES}
    return [token_id for token_id in ends if token_id not in known]


def _byte_level(parts: TokenizerParts, model: Mapping[str, Any], file: Path) -> dict[str, Value]:
    whole = bool(model.get("ignore_merges"))
    expressions = _expressions(parts, file)
    for name, rule in WORD_RULES.items():  # the usual name of a rule comes first
        if rule.expressions == expressions and rule.takes_whole_words == whole:
            merges = [" ".join(pair) for pair in model["merges"]]
            return {"model": "gpt2", "pre": name, "merges": merges}
    raise untold(file, f"its way of cutting words ({brief(list(expressions))})")


def _expressions(parts: TokenizerParts, file: Path) -> tuple[str, ...]:
    """The pre-tokenizer as the expressions of a `WordRule`."""
    preparation = parts.preparations[Start.TEXT]
    for node in flat_state(preparation.normalizer):
        if node["type"] != "NFC":
            raise untold(file, f"its normalizer {node['type']}")
    expressions: list[str] = []
    cuts = flat_state(preparation.pre_tokenizer)
    if any(node["type"] == "ByteLevel" for node in cuts[:-1]):  # what comes after it cuts bytes
        raise untold(file, "a pre-tokenizer after ByteLevel")
    for node in cuts:
        kind = node["type"]
        if (
            kind == "Split"
            and node["behavior"] == "Isolated"
            and not node["invert"]
            and "Regex" in node["pattern"]
        ):
            expressions.append(node["pattern"]["Regex"])
        elif kind == "Digits" and node["individual_digits"]:
            expressions.append(r"\p{N}")
        elif kind == "ByteLevel" and not node["add_prefix_space"]:
            expressions += [GPT2_WORDS] if node["use_regex"] else []
        else:
            raise untold(file, f"its pre-tokenizer {kind}")
    return tuple(expressions)


def _shown(node: Mapping[str, Any]) -> str:
    """The kind of a component, and how it is set."""
    return f"{node['type']}({brief({key: value for key, value in node.items() if key != 'type'})})"


def _sentencepiece(
    parts: TokenizerParts, model: Mapping[str, Any], texts: list[str], file: Path
) -> dict[str, Value]:
    normal = np.flatnonzero(parts.kinds == TokenKind.NORMAL).tolist()
    _check_only_marks(parts, file, any(SPACE_MARK in texts[i][1:] for i in normal))
    if model.get("ignore_merges"):
        raise untold(file, "its ignore_merges")
    unknown = np.flatnonzero(parts.kinds == TokenKind.UNKNOWN).tolist()
    n_bytes = int(np.count_nonzero(parts.kinds == TokenKind.BYTE))
    if n_bytes < 256 and not (unknown and model.get("fuse_unk")):
        raise untold(file, "how it spells unknown characters")
    values: dict[str, Value] = {"unknown_token_id": unknown[0]} if unknown else {}
    return values | {
        "model": "llama",
        "pre": "default",
        "scores": _scores(parts, [tuple(pair) for pair in model["merges"]], file),
        "add_space_prefix": parts.strips_leading_space,
    }


def _check_only_marks(parts: TokenizerParts, file: Path, pieces_span_words: bool) -> None:
    """UnsupportedModel where a text is changed or cut before it is merged, but for its marks of spaces."""
    preparation = parts.preparations[Start.TEXT]
    changes = flat_state(preparation.normalizer)
    for node in changes:
        if node not in _MARKING:
            raise untold(file, f"its normalizer {_shown(node)}")
    for node in flat_state(preparation.pre_tokenizer):
        if node["type"] == "Metaspace" and node["replacement"] == SPACE_MARK:
            plain = not (node["split"] and pieces_span_words)
        else:  # Gemma's cuts at spaces, where none is left
            plain = _MARKING[1] in changes and node["type"] == "Split" and node["pattern"] == {"String": " "}
        if not plain:
            raise untold(file, f"its pre-tokenizer {_shown(node)}")


def _scores(parts: TokenizerParts, merges: Sequence[tuple[str, str]], file: Path) -> F32:
    """(V,): a piece has the better score the earlier it is merged. UnsupportedModel where scores do not give
    these merges back: all ways to cut a piece have to stand together.

    Merges to user-defined tokens do not count: a reader has none, for it finds such tokens in the text before
    it merges anything. That this comes to the same is what words_check.py probes.
    """
    normal = np.flatnonzero(parts.kinds == TokenKind.NORMAL)
    pieces = [parts.pieces[i] for i in normal.tolist()]
    added = {parts.pieces[i] for i in np.flatnonzero(parts.kinds == TokenKind.USER_DEFINED).tolist()}
    kept = [(left, right) for left, right in merges if left + right not in added]
    rank: dict[str, int] = {}
    for left, right in kept:
        rank.setdefault(left + right, len(rank))
    scores = np.zeros(len(parts.kinds), dtype="<f4")
    scores[normal] = [-float(rank.get(piece, len(rank))) for piece in pieces]
    derived = derive_merges(pieces, scores[normal].astype(np.float64))
    order = [rank[left + right] for left, right in kept]
    if set(derived) != set(kept) or order != sorted(order):
        raise untold(file, "its merges, which are not those of scores,")
    return scores
