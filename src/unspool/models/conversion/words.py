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
from itertools import combinations, count, product
from pathlib import Path
from typing import Any, Final

import numpy as np

from unspool.errors import brief
from unspool.models.chat_sources import template_sources
from unspool.models.conversion.untold import untold
from unspool.models.tokenizer.end_tokens import END_NAMES
from unspool.models.tokenizer.gguf import ROLE_NAMES, gguf_parts
from unspool.models.tokenizer.merges import derive_merges
from unspool.models.tokenizer.parts import AddedPiece, Start, TokenizerParts, TokenKind
from unspool.models.tokenizer.pre_tokenizers import GPT2_WORDS, WORD_RULES
from unspool.models.tokenizer.spelling import SPACE_MARK, Spelling
from unspool.models.tokenizer.tokenizer import Tokenizer
from unspool.models.tokenizer.tokenizer_json import FILE, flat_state, tokenizer_parts
from unspool.models.weights.base import WeightSource
from unspool.models.weights.gguf_writer import Value
from unspool.types import F32

_KEY: Final = "tokenizer.ggml."
_TEMPLATE: Final = "tokenizer.chat_template"
_MARKING: Final = (  # what normalizers do that only mark spaces
    {"type": "Prepend", "prepend": SPACE_MARK},
    {"type": "Replace", "pattern": {"String": " "}, "content": SPACE_MARK},
)
# Texts in which tokenizers differ: words and their ends, digits, blanks, scripts, code, odd bytes.
_PROBES: Final = (
    "Hello world, it's 12345 o'clock — I'LL be there; don't WAIT!",
    "two  spaces\n\n\nand\tlines\r\n    four    \n",
    "naïve café Straße 数字と漢字、한국어 русский العربية ไทย 🙂🇫🇷 x²½",
    "def f(x):\n    return {'a_b': x[0]**2, \"c\": None}  # HTTPServer camelCase 0x1F\n",
    "<b>€1,000.00</b> a.b@c.de http://x.y/z?q=1&r=2 \u200b\u00a0end",
)


def folder_parts(source: WeightSource, n_rows: int) -> TokenizerParts:
    """The folder's tokenizer, with a token for each row of the network's embedding. UnsupportedModel where
    there are more tokens than rows: other readers take none of them then."""
    parts = tokenizer_parts(source.path, {**source.metadata, "vocab_size": n_rows})
    if len(parts.kinds) > n_rows:
        raise untold(
            source.path / FILE, f"a vocabulary of {len(parts.kinds)} tokens with {n_rows} rows of weights"
        )
    return parts


def word_values(source: WeightSource, parts: TokenizerParts) -> dict[str, Value]:
    """Metadata keys, chat templates too, with their values; UnsupportedModel where a file cannot say it."""
    model = json.loads(parts.model.__getstate__())
    for trait in ("continuing_subword_prefix", "end_of_word_suffix", "dropout"):
        if model.get(trait):
            raise untold(source.path / FILE, f"its {trait}")
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
        values |= _byte_level(parts, model)
    else:
        values |= _sentencepiece(parts, model, texts)
    templates = template_sources(source)
    others = sorted(set(templates) - {"default"})
    result = {f"{_KEY}{key}": value for key, value in values.items()}
    result |= {f"{_TEMPLATE}.{name}": templates[name] for name in others}
    if others:
        result[f"{_TEMPLATE}s"] = others
    if "default" in templates:
        result[_TEMPLATE] = templates["default"]
    return result


def check_same_words(own_parts: TokenizerParts, path: Path, metadata: Mapping[str, Any]) -> None:
    """UnsupportedModel where a tokenizer that is read from these keys is not the folder's."""
    its_parts = gguf_parts(path, metadata)
    _check_same_added(own_parts, its_parts, path)
    templates = [
        text for key, text in metadata.items() if key.startswith(_TEMPLATE) and isinstance(text, str)
    ]
    for name in sorted(own_parts.special_tokens.keys() | its_parts.special_tokens.keys()):
        text = own_parts.special_tokens.get(name)
        if text != its_parts.special_tokens.get(name) and any(name in template for template in templates):
            raise untold(path / FILE, f"{name} = {text!r}, which its chat template reads,")
    own, its = Tokenizer(own_parts), Tokenizer(its_parts)
    (own_bytes, own_ends), (its_bytes, its_ends) = own.all_token_bytes(), its.all_token_bytes()
    if own_bytes != its_bytes or own_ends.tolist() != its_ends.tolist():
        raise untold(path / FILE, "its tokens")
    for name in ("eos_ids", "bos_id", "adds_bos", "strips_leading_space"):
        if getattr(own, name) != getattr(its, name):
            value = getattr(own, name)
            shown = sorted(value) if isinstance(value, frozenset) else value
            raise untold(path / FILE, f"{name} = {brief(shown)}")
    for text in (*_PROBES, *_runs(own_parts), *own.special_tokens.values()):
        for parse_special in (False, True):
            if own.encode(text, parse_special=parse_special) != its.encode(text, parse_special=parse_special):
                raise untold(path / FILE, f"how it cuts {text!r}")


def _check_same_added(own: TokenizerParts, its: TokenizerParts, path: Path) -> None:
    """UnsupportedModel where an added token is found otherwise: the file has no words for what it eats, where
    it counts, and whether it is looked for before the text is normalized or after, when others are found."""
    of_folder = {piece.token_id: piece for piece in own.added}
    changes = (
        flat_state(own.preparations[Start.TEXT].normalizer) if own.spelling is Spelling.SPACE_MARK else []
    )
    prepends = any(node["type"] == "Prepend" for node in changes)
    by_turn: dict[tuple[bool, bool], list[str]] = {}  # in the folder, and in the file
    for found in its.added:
        piece = of_folder.get(found.token_id)
        if piece is None:
            raise untold(path / FILE, f"the unknown token {found.text!r}, which is not an added one,")
        marked = prepends or " " in piece.text or SPACE_MARK in piece.text
        late = piece.normalized and bool(changes)
        if (
            piece.eats_space_left != found.eats_space_left
            or piece.eats_space_right != found.eats_space_right
            or piece.whole_word != found.whole_word
            or (marked and late != found.normalized and not _is_run(own, piece))
        ):
            raise untold(path / FILE, f"how it finds the token {piece.text!r}")
        if not _is_run(own, piece):
            by_turn.setdefault((piece.normalized, found.normalized), []).append(piece.text)
    for one, other in combinations(by_turn, 2):
        if int(one[0]) - int(other[0]) != int(one[1]) - int(other[1]):
            for text, rival in product(by_turn[one], by_turn[other]):
                if _may_overlap(text, rival):
                    raise untold(path / FILE, f"which of the tokens {text!r} and {rival!r} it finds first")


def _may_overlap(one: str, other: str) -> bool:
    within = one in other or other in one
    return within or any(one.endswith(other[:n]) or other.endswith(one[:n]) for n in range(1, len(other)))


def _runs(parts: TokenizerParts) -> list[str]:
    """Texts with each run of spaces that is a token, before a letter that a space is merged with."""
    letters = (parts.pieces[i] for i in range(len(parts.kinds)))
    letter = next((piece[1] for piece in letters if len(piece) == 2 and piece[0] == SPACE_MARK), "a")
    return [f"a{len(piece.text) * ' '}{letter}" for piece in parts.added if _is_run(parts, piece)]


def _is_run(parts: TokenizerParts, piece: AddedPiece) -> bool:
    """Whether a token is a run of spaces, spelled in marks (Gemma's). A folder has merges for them, and a
    file looks for them before anything is merged: the same for runs that a token covers."""
    is_text = parts.spelling is Spelling.SPACE_MARK and not piece.is_control
    return is_text and len(piece.text) > 1 and not piece.text.strip(SPACE_MARK)


def _texts(parts: TokenizerParts) -> list[str]:
    """How the file spells each token; rows that only pad the vocabulary get a name that no text has."""
    texts = [parts.pieces[i] for i in range(len(parts.kinds))]
    for piece in parts.added:
        texts[piece.token_id] = piece.text.replace(SPACE_MARK, " ") if _is_run(parts, piece) else piece.text
    taken = set(texts)
    for i, text in enumerate(texts):
        if not text:
            texts[i] = next(name for k in count() if (name := f"[PAD{i}{'_' * k}]") not in taken)
    return texts


def _not_known(parts: TokenizerParts, ends: Sequence[int]) -> list[int]:
    """Of these ends, those that readers do not know by their names."""
    known = {piece.token_id for piece in parts.added if piece.is_control and piece.text in END_NAMES}
    return [token_id for token_id in ends if token_id not in known]


def _byte_level(parts: TokenizerParts, model: Mapping[str, Any]) -> dict[str, Value]:
    whole = bool(model.get("ignore_merges"))
    expressions = _expressions(parts)
    for name, rule in WORD_RULES.items():  # the usual name of a rule comes first
        if rule.expressions == expressions and rule.takes_whole_words == whole:
            merges = [" ".join(pair) for pair in model["merges"]]
            return {"model": "gpt2", "pre": name, "merges": merges}
    raise untold(Path(parts.name), f"its way of cutting words ({brief(list(expressions))})")


def _expressions(parts: TokenizerParts) -> tuple[str, ...]:
    """The pre-tokenizer as the expressions of a `WordRule`."""
    preparation = parts.preparations[Start.TEXT]
    file = Path(parts.name)
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


def _sentencepiece(parts: TokenizerParts, model: Mapping[str, Any], texts: list[str]) -> dict[str, Value]:
    file = Path(parts.name)
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
        "scores": _scores(parts, [tuple(pair) for pair in model["merges"]]),
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


def _scores(parts: TokenizerParts, merges: Sequence[tuple[str, str]]) -> F32:
    """(V,): a piece has the better score the earlier it is merged. UnsupportedModel where scores do not give
    these merges back: all ways to cut a piece have to stand together.

    Merges to user-defined tokens do not count: a reader has none, for it finds such tokens in the text before
    it merges anything. That this comes to the same is what `check_same_words` probes.
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
        raise untold(Path(parts.name), "its merges, which are not those of scores,")
    return scores
