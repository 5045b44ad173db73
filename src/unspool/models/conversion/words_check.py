"""Whether a tokenizer that was put into the words of GGUF is still the folder's: read back, and compared."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations, product
from pathlib import Path
from typing import Any, Final

from unspool.errors import brief
from unspool.models.conversion.untold import untold
from unspool.models.conversion.words import TEMPLATE_KEY, is_run
from unspool.models.tokenizer.gguf import gguf_parts
from unspool.models.tokenizer.parts import Start, TokenizerParts
from unspool.models.tokenizer.spelling import SPACE_MARK, Spelling
from unspool.models.tokenizer.tokenizer import Tokenizer
from unspool.models.tokenizer.tokenizer_json import flat_state

# Texts in which tokenizers differ: words and their ends, digits, blanks, scripts, code, odd bytes.
_PROBES: Final = (
    "Hello world, it's 12345 o'clock — I'LL be there; don't WAIT!",
    "two  spaces\n\n\nand\tlines\r\n    four    \n",
    "naïve café Straße 数字と漢字、한국어 русский العربية ไทย 🙂🇫🇷 x²½",
    "def f(x):\n    return {'a_b': x[0]**2, \"c\": None}  # HTTPServer camelCase 0x1F\n",
    "<b>€1,000.00</b> a.b@c.de http://x.y/z?q=1&r=2 \u200b\u00a0end",
)


def check_same_words(own_parts: TokenizerParts, file: Path, metadata: Mapping[str, Any]) -> None:
    """UnsupportedModel where a tokenizer that is read from these keys is not the folder's, which `file`
    describes."""
    its_parts = gguf_parts(file.parent, metadata)
    _check_same_added(own_parts, its_parts, file)
    templates = [
        text for key, text in metadata.items() if key.startswith(TEMPLATE_KEY) and isinstance(text, str)
    ]
    for name in sorted(own_parts.special_tokens.keys() | its_parts.special_tokens.keys()):
        text = own_parts.special_tokens.get(name)
        if text != its_parts.special_tokens.get(name) and any(name in template for template in templates):
            raise untold(file, f"{name} = {text!r}, which its chat template reads,")
    own, its = Tokenizer(own_parts), Tokenizer(its_parts)
    (own_bytes, own_ends), (its_bytes, its_ends) = own.all_token_bytes(), its.all_token_bytes()
    if own_bytes != its_bytes or own_ends.tolist() != its_ends.tolist():
        raise untold(file, "its tokens")
    for name in ("eos_ids", "bos_id", "adds_bos", "strips_leading_space"):
        if getattr(own, name) != getattr(its, name):
            value = getattr(own, name)
            shown = sorted(value) if isinstance(value, frozenset) else value
            raise untold(file, f"{name} = {brief(shown)}")
    for text in (*_PROBES, *_runs(own_parts), *own.special_tokens.values()):
        for parse_special in (False, True):
            if own.encode(text, parse_special=parse_special) != its.encode(text, parse_special=parse_special):
                raise untold(file, f"how it cuts {text!r}")


def _check_same_added(own: TokenizerParts, its: TokenizerParts, file: Path) -> None:
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
            raise untold(file, f"the unknown token {found.text!r}, which is not an added one,")
        marked = prepends or " " in piece.text or SPACE_MARK in piece.text
        late = piece.normalized and bool(changes)
        if (
            piece.eats_space_left != found.eats_space_left
            or piece.eats_space_right != found.eats_space_right
            or piece.whole_word != found.whole_word
            or (marked and late != found.normalized and not is_run(own, piece))
        ):
            raise untold(file, f"how it finds the token {piece.text!r}")
        if not is_run(own, piece):
            by_turn.setdefault((piece.normalized, found.normalized), []).append(piece.text)
    for one, other in combinations(by_turn, 2):
        if int(one[0]) - int(other[0]) != int(one[1]) - int(other[1]):
            for text, rival in product(by_turn[one], by_turn[other]):
                if _may_overlap(text, rival):
                    raise untold(file, f"which of the tokens {text!r} and {rival!r} it finds first")


def _may_overlap(one: str, other: str) -> bool:
    within = one in other or other in one
    return within or any(one.endswith(other[:n]) or other.endswith(one[:n]) for n in range(1, len(other)))


def _runs(parts: TokenizerParts) -> list[str]:
    """Texts with each run of spaces that is a token, before a letter that a space is merged with."""
    letters = (parts.pieces[i] for i in range(len(parts.kinds)))
    letter = next((piece[1] for piece in letters if len(piece) == 2 and piece[0] == SPACE_MARK), "a")
    return [f"a{len(piece.text) * ' '}{letter}" for piece in parts.added if is_run(parts, piece)]
