"""Text to token ids, and ids to bytes.

What a `Tokenizer` promises, for every model:

- Control tokens typed by a user ("<|im_end|>") are plain text, unless `parse_special=True`.
- At most one BOS, and only for models that want one: text that already begins with it gets no second.
- Ids add up to bytes: the text of a sequence is `token_bytes` of its ids, one after the other. Only where
  `strips_leading_space` is true (SentencePiece models that put a space before the first word when
  encoding) does a text *from its beginning* lose one leading space again. A continuation, which is what
  an engine generates, never does: decode it with `continues=True`.
- That space comes before the first word of a text, and again after each control or user-defined token within
  it, because the references see a new text there.
- Bytes survive: `decode_bytes(encode_bytes(data)) == data`, valid UTF-8 or not. `encode` of text may lose
  what the model's authors chose to lose: normalization of a tokenizer.json; "▁" that SentencePiece reads as
  a space; and bytes without a token (`missing_bytes`), which the references drop in silence too.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from unspool.errors import BadRequest, ModelFileError
from unspool.models.tokenizer.control import ControlFinder
from unspool.models.tokenizer.parts import AddedPiece, Start, TokenizerParts, TokenKind
from unspool.models.tokenizer.spelling import (
    SPACE_MARK,
    Spelling,
    byte_level_piece,
    byte_of_fallback_piece,
    bytes_of_byte_level_piece,
    bytes_of_marked_piece,
    fallback_piece,
)

# Bytes that are no UTF-8 become these characters under "surrogateescape"; a byte b is chr(0xDC00 + b).
_NOT_UTF8 = "\udc80-\udcff"
_SILENT = frozenset({TokenKind.CONTROL, TokenKind.UNKNOWN, TokenKind.UNUSED})


class Tokenizer:
    """One vocabulary. Immutable and safe to share between threads."""

    def __init__(self, parts: TokenizerParts) -> None:
        self._parts = parts
        self.vocab_size: int = len(parts.kinds)
        self.bos_id: int | None = parts.bos_id
        self.eos_ids: frozenset[int] = parts.eos_ids
        self.adds_bos: bool = parts.adds_bos
        self.strips_leading_space: bool = parts.strips_leading_space
        self.special_tokens: Mapping[str, str] = parts.special_tokens
        self._added = {piece.token_id: piece for piece in parts.added}
        self._unknown_ids = frozenset((parts.kinds == TokenKind.UNKNOWN).nonzero()[0].tolist())
        control = frozenset(piece.token_id for piece in parts.added if piece.is_control)
        self._control_ids = control - self._unknown_ids
        self._kinds = parts.kinds.tobytes()
        self._byte_ids = self._find_byte_ids()
        self.missing_bytes: frozenset[int] = frozenset(
            byte for byte, token_id in enumerate(self._byte_ids) if token_id is None
        )
        marks = SPACE_MARK if parts.spelling is Spelling.SPACE_MARK else ""
        self._not_text = re.compile(f"([{_NOT_UTF8}{marks}]+)")
        self._encoders: dict[tuple[Start, bool], Any] = {}
        self._building = threading.Lock()
        self.control_finder = ControlFinder(parts.added)

    # Encoding

    def encode(
        self,
        text: str,
        *,
        add_bos: bool = True,
        parse_special: bool = False,
        literal_spans: Sequence[tuple[int, int]] = (),
    ) -> list[int]:
        """Ids of a text from its beginning.

        `add_bos` puts BOS first where the model wants one and the text does not begin with it already.
        `parse_special` turns control tokens written out in the text into those tokens; user-defined
        tokens are found either way. Within `literal_spans`, ascending pairs (begin, end) of character
        offsets, they stay plain text all the same: the parts of a prompt that a user wrote. Lone surrogates
        that stand for bytes (as in sys.argv) are those bytes; others raise BadRequest.
        """
        try:
            if parse_special and literal_spans:
                ids = self._encode_around(text, literal_spans)
            else:
                ids = self._encode_plain(text, Start.TEXT, parse_special)
        except TypeError:  # the library's word for text that has no UTF-8
            if not isinstance(text, str):
                raise
            return self.encode_bytes(_escaped(text), add_bos=add_bos, parse_special=parse_special)
        return self._with_bos(ids) if add_bos else ids

    def encode_bytes(self, data: bytes, *, add_bos: bool = True, parse_special: bool = False) -> list[int]:
        """Ids of bytes, exactly: nothing is normalized, and bytes that are no UTF-8 are spelled one by one.

        (With `parse_special`, control tokens that swallow blanks around them do so here too.)
        Raises BadRequest for a byte the vocabulary has no token for, naming it and where it is.
        """
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
                plain = self._encode_exactly(piece, raw, at == 0, parse_special)
                if self._unknown_ids and not self._unknown_ids.isdisjoint(plain):
                    self._refuse_missing(raw, at)
                ids += plain
            at += len(raw)
        return self._with_bos(ids) if add_bos else ids

    def _encode_plain(self, text: str, start: Start, parse_special: bool) -> list[int]:
        ids: list[int] = self._encoder(start, parse_special).encode(text, add_special_tokens=False).ids
        if parse_special or self._control_ids.isdisjoint(ids):
            return ids
        return self._spell_out(ids)

    def _encode_around(self, text: str, literal_spans: Sequence[tuple[int, int]]) -> list[int]:
        """What the library does with control tokens, but for those that touch a literal span."""
        ids: list[int] = []
        start, begin = Start.TEXT, 0
        for at, piece in self.control_finder.find_outside(text, literal_spans):
            before = text[begin:at]
            begin = at + len(piece.text)
            ids += self._encode_plain(before.rstrip() if piece.eats_space_left else before, start, False)
            ids.append(piece.token_id)
            if piece.eats_space_right:
                begin += len(text[begin:]) - len(text[begin:].lstrip())
            start = Start.TEXT if self._parts.restarts else Start.INSIDE
        return ids + self._encode_plain(text[begin:], start, False)

    def _encode_exactly(self, text: str, raw: bytes, is_first: bool, parse_special: bool) -> list[int]:
        if not is_first or not self.strips_leading_space:
            return self._encode_plain(text, Start.INSIDE, parse_special)
        ids = self._encode_plain(text, Start.BYTES, parse_special)
        if parse_special or self.decode_bytes(ids) == raw:
            return ids
        # The library starts a new text, with a space before it, after each user-defined token.
        space = self._parts.model.token_to_id(SPACE_MARK)
        first = self._spell(b" ") if space is None else [space]
        return first + self._encode_plain(text, Start.INSIDE, parse_special)

    def _spell_out(self, ids: list[int]) -> list[int]:
        """Replace control tokens that the vocabulary's own rules made from plain text by smaller pieces."""
        result: list[int] = []
        for token_id in ids:
            if token_id in self._control_ids:
                for character in self._added[token_id].text:
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

    def _with_bos(self, ids: list[int]) -> list[int]:
        if not self.adds_bos or self.bos_id is None or ids[:1] == [self.bos_id]:
            return ids
        return [self.bos_id, *ids]

    def _encoder(self, start: Start, parse_special: bool) -> Any:
        """A pipeline of the tokenizers library; all of them share one vocabulary."""
        key = (start, parse_special)
        encoder = self._encoders.get(key)
        if encoder is None:
            with self._building:
                encoder = self._encoders.setdefault(key, self._build_encoder(start, parse_special))
        return encoder

    def _build_encoder(self, start: Start, parse_special: bool) -> Any:
        from tokenizers import AddedToken
        from tokenizers import Tokenizer as Pipeline

        encoder = Pipeline(self._parts.model)
        preparation = self._parts.preparations[start]
        if preparation.normalizer is not None:
            encoder.normalizer = preparation.normalizer
        if preparation.pre_tokenizer is not None:
            encoder.pre_tokenizer = preparation.pre_tokenizer
        added = self._parts.added
        if not parse_special and all(encoder.token_to_id(p.text) == p.token_id for p in added):
            added = tuple(piece for piece in added if not piece.is_control)
        # Where the library numbers added tokens itself, it must see all of them, in order.
        encoder.encode_special_tokens = not parse_special
        encoder.add_tokens([_as_added_token(AddedToken, piece) for piece in added])
        for piece in added:
            if encoder.token_to_id(piece.text) != piece.token_id:
                raise ModelFileError(
                    self._parts.name,
                    "added_tokens",
                    f"{piece.text[:80]!r} cannot have the id {piece.token_id}",
                )
        return encoder

    # Decoding

    def token_bytes(self, token_id: int) -> bytes:
        """What this token adds to the text; b"" for control, unknown and unused tokens."""
        kind = self._kind(token_id)
        return b"" if kind in _SILENT else self._literal(token_id, kind)

    def decode_bytes(
        self, ids: Iterable[int], *, skip_special: bool = True, continues: bool = False
    ) -> bytes:
        """The bytes of a sequence; control tokens are written out unless `skip_special`.

        `continues` says that the ids follow an earlier text: then the result is exactly the sum of
        `token_bytes`, and the leading space of `strips_leading_space` models stays.
        """
        strips = self.strips_leading_space and not continues
        parts: list[bytes] = []
        for token_id in ids:
            kind = self._kind(token_id)
            if kind in _SILENT:
                if not skip_special:
                    parts.append(self._literal(token_id, kind))
                continue
            data = self._literal(token_id, kind)
            if strips and kind != TokenKind.USER_DEFINED:  # no space is put before those
                data = data.removeprefix(b" ")
            strips = False
            parts.append(data)
        return b"".join(parts)

    def decode(self, ids: Iterable[int], *, skip_special: bool = True, continues: bool = False) -> str:
        """`decode_bytes` as text; bytes that are no UTF-8 become U+FFFD."""
        return self.decode_bytes(ids, skip_special=skip_special, continues=continues).decode(
            "utf-8", "replace"
        )

    def token_text(self, token_id: int) -> str:
        """For display: control tokens by name, bytes that are no character as \\xe4."""
        return self._literal(token_id, self._kind(token_id)).decode("utf-8", "backslashreplace")

    def is_special(self, token_id: int) -> bool:
        """True for tokens that are never text: control, unknown, unused."""
        return self._kind(token_id) in _SILENT

    def kind(self, token_id: int) -> TokenKind:
        return TokenKind(self._kind(token_id))

    def token_id(self, text: str) -> int | None:
        """The id of the token spelled exactly so ("<|im_end|>", "hello"), if there is one."""
        for piece in self._parts.added:
            if piece.text == text:
                return piece.token_id
        spelled = (
            byte_level_piece(text.encode())
            if self._parts.spelling is Spelling.BYTE_LEVEL
            else text.replace(" ", SPACE_MARK)
        )
        found: int | None = self._parts.model.token_to_id(spelled)
        return found

    def _kind(self, token_id: int) -> int:
        if not 0 <= token_id < self.vocab_size:
            raise BadRequest(f"token id must be from 0 to {self.vocab_size - 1}, got {token_id}")
        return self._kinds[token_id]

    def _literal(self, token_id: int, kind: int) -> bytes:
        added = self._added.get(token_id)
        if added is not None:
            return added.text.encode()
        piece: str | None = self._parts.model.id_to_token(token_id)
        if piece is None:  # rows of the output layer that only pad it
            return f"[{token_id}]".encode()
        if kind == TokenKind.BYTE and (byte := byte_of_fallback_piece(piece)) is not None:
            return bytes([byte])
        if self._parts.spelling is Spelling.BYTE_LEVEL:
            return bytes_of_byte_level_piece(piece)
        return bytes_of_marked_piece(piece)

    def _find_byte_ids(self) -> list[int | None]:
        """The token of each single byte (256)."""
        to_id = self._parts.model.token_to_id
        if self._parts.spelling is Spelling.BYTE_LEVEL:
            return [to_id(byte_level_piece(bytes([byte]))) for byte in range(256)]
        ids: list[int | None] = [to_id(fallback_piece(byte)) for byte in range(256)]
        return [i if i is not None and self._kinds[i] == TokenKind.BYTE else None for i in ids]


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
