"""Text and bytes to token ids, through pipelines of the tokenizers library that share one vocabulary."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from unspool.errors import BadRequest, ModelFileError
from unspool.models.tokenizer.control import ControlFinder
from unspool.models.tokenizer.library import blamed_on
from unspool.models.tokenizer.parts import AddedPiece, Start, TokenizerParts, TokenKind
from unspool.models.tokenizer.spelling import SPACE_MARK, Spelling, byte_level_piece
from unspool.models.tokenizer.vocabulary import Vocabulary

# Bytes that are no UTF-8 become these characters under "surrogateescape"; a byte b is chr(0xDC00 + b).
_NOT_UTF8 = "\udc80-\udcff"


class Encoder:
    """Knows nothing of BOS. Immutable but for pipelines built when first needed; safe between threads."""

    def __init__(self, parts: TokenizerParts, vocabulary: Vocabulary) -> None:
        self._parts = parts
        self._vocabulary = vocabulary
        self._unknown_ids = frozenset((parts.kinds == TokenKind.UNKNOWN).nonzero()[0].tolist())
        self._control = {
            piece.token_id: piece.text
            for piece in parts.added
            if piece.is_control and piece.token_id not in self._unknown_ids
        }
        self.control_finder = ControlFinder(parts.added)
        self._byte_ids = vocabulary.byte_ids()
        self.missing_bytes = frozenset(byte for byte, i in enumerate(self._byte_ids) if i is None)
        marks = SPACE_MARK if parts.spelling is Spelling.SPACE_MARK else ""
        self._not_text = re.compile(f"([{_NOT_UTF8}{marks}]+)")
        self._pipelines: dict[tuple[Start, bool], Any] = {}

    def encode_text(self, text: str, start: Start, parse_special: bool) -> list[int]:
        if not isinstance(text, str):
            raise TypeError(f"text must be a str, got {type(text).__name__}; encode_bytes takes bytes")
        try:
            text.encode()
        except UnicodeEncodeError:
            return self.encode_data(_escaped(text), start, parse_special)
        return self._encode_plain(text, start, parse_special)

    def encode_data(self, data: bytes, start: Start, parse_special: bool) -> list[int]:
        ids: list[int] = []
        if self._parts.spelling is Spelling.BYTE_LEVEL and self.missing_bytes:
            self._refuse_missing(data, 0)
        at = 0  # offset of the piece in data
        for index, piece in enumerate(self._not_text.split(data.decode("utf-8", "surrogateescape"))):
            raw = piece.encode("utf-8", "surrogateescape")
            if index % 2:
                self._refuse_missing(raw, at)
                ids += self._spell(raw)
            elif piece:
                begins = at == 0 and start is not Start.INSIDE
                plain = self._encode_exactly(piece, raw, begins, parse_special)
                if self._unknown_ids and not self._unknown_ids.isdisjoint(plain):
                    self._refuse_missing(raw, at)
                ids += plain
            at += len(raw)
        return ids

    def _encode_plain(self, text: str, start: Start, parse_special: bool) -> list[int]:
        pipeline = self._pipeline(start, parse_special)
        with blamed_on(self._parts.name, "pipeline", "fails on a text"):
            ids: list[int] = pipeline.encode(text, add_special_tokens=False).ids
        if parse_special or self._control.keys().isdisjoint(ids):
            return ids
        return self._spell_out(ids)

    def encode_around(self, text: str, literal_spans: Sequence[tuple[int, int]]) -> list[int]:
        """What the library does with control tokens, but for those that touch a literal span."""
        ids: list[int] = []
        start, begin = Start.TEXT, 0
        for at, piece in self.control_finder.find_outside(text, literal_spans):
            before = text[begin:at]
            begin = at + len(piece.text)
            ids += self.encode_text(before.rstrip() if piece.eats_space_left else before, start, False)
            ids.append(piece.token_id)
            if piece.eats_space_right:
                begin += len(text[begin:]) - len(text[begin:].lstrip())
            start = Start.TEXT if self._parts.restarts else Start.INSIDE
        return ids + self.encode_text(text[begin:], start, False)

    def _encode_exactly(self, text: str, raw: bytes, begins: bool, parse_special: bool) -> list[int]:
        if not begins or not self._parts.strips_leading_space:
            return self._encode_plain(text, Start.INSIDE, parse_special)
        ids = self._encode_plain(text, Start.BYTES, parse_special)
        if parse_special or self._vocabulary.decode_bytes(ids) == raw:
            return ids
        # The library starts a new text, with a space before it, after each user-defined token.
        space = self._parts.model.token_to_id(SPACE_MARK)
        first = self._spell(b" ") if space is None else [space]
        return first + self._encode_plain(text, Start.INSIDE, parse_special)

    def _spell_out(self, ids: list[int]) -> list[int]:
        """Replace control tokens that the vocabulary's own rules made from plain text by smaller pieces."""
        result: list[int] = []
        for token_id in ids:
            if token_id in self._control:
                for character in self._control[token_id]:
                    result += self._spell(character.encode())
            else:
                result.append(token_id)
        return result

    def _spell(self, data: bytes) -> list[int]:
        """Ids of bytes that need not be UTF-8. Bytes without a token are left out."""
        if self._parts.spelling is Spelling.BYTE_LEVEL:
            return [token.id for token in self._parts.model.tokenize(byte_level_piece(data))]
        return [token_id for byte in data if (token_id := self._byte_ids[byte]) is not None]

    def _refuse_missing(self, data: bytes, offset: int) -> None:
        for at, byte in enumerate(data, start=offset):
            if byte in self.missing_bytes:
                raise BadRequest(
                    f"byte 0x{byte:02X} at offset {at} has no token in the vocabulary of {self._parts.name}; "
                    "remove it, or encode the text instead of its bytes, which leaves it out"
                )

    def _pipeline(self, start: Start, parse_special: bool) -> Any:
        """A pipeline of the tokenizers library; all of them share one vocabulary."""
        key = (start, parse_special)
        pipeline = self._pipelines.get(key)
        if pipeline is None:
            # Without a lock, for which a child that is forked in the meantime would wait forever.
            pipeline = self._pipelines.setdefault(key, self._build_pipeline(start, parse_special))
        return pipeline

    def _build_pipeline(self, start: Start, parse_special: bool) -> Any:
        from tokenizers import AddedToken
        from tokenizers import Tokenizer as Pipeline

        pipeline = Pipeline(self._parts.model)
        preparation = self._parts.preparations[start]
        if preparation.normalizer is not None:
            pipeline.normalizer = preparation.normalizer
        if preparation.pre_tokenizer is not None:
            pipeline.pre_tokenizer = preparation.pre_tokenizer
        added = self._parts.added
        if not parse_special and all(pipeline.token_to_id(p.text) == p.token_id for p in added):
            added = tuple(piece for piece in added if not piece.is_control)
        # Where the library numbers added tokens itself, it must see all of them, in order.
        pipeline.encode_special_tokens = not parse_special
        with blamed_on(self._parts.name, "added_tokens", "cannot be added"):
            pipeline.add_tokens([_as_added_token(AddedToken, piece) for piece in added])
        for piece in added:
            if pipeline.token_to_id(piece.text) != piece.token_id:
                raise ModelFileError(
                    self._parts.name,
                    "added_tokens",
                    f"{piece.text[:80]!r} cannot have the id {piece.token_id}",
                )
        return pipeline


def _escaped(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as problem:
        character = f"U+{ord(text[problem.start]):04X}"
        raise BadRequest(
            f"text holds the lone surrogate {character} at character {problem.start}, which is no text; "
            "replace it, or pass bytes to encode_bytes"
        ) from None


def _as_added_token(kind: Any, piece: AddedPiece) -> Any:
    return kind(
        piece.text,
        special=piece.is_control,
        normalized=piece.normalized,
        lstrip=piece.eats_space_left,
        rstrip=piece.eats_space_right,
        single_word=piece.whole_word,
    )
