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

from collections.abc import Iterable, Mapping, Sequence

from unspool.models.tokenizer.control import ControlFinder
from unspool.models.tokenizer.encoder import Encoder
from unspool.models.tokenizer.parts import Start, TokenizerParts, TokenKind
from unspool.models.tokenizer.pieces import I64
from unspool.models.tokenizer.vocabulary import Vocabulary


class Tokenizer:
    """One vocabulary. Immutable and safe to share between threads."""

    def __init__(self, parts: TokenizerParts) -> None:
        self._vocabulary = Vocabulary(parts)
        self._encoder = Encoder(parts, self._vocabulary)
        self.vocab_size: int = self._vocabulary.size
        self.bos_id: int | None = parts.bos_id
        self.eos_ids: frozenset[int] = parts.eos_ids
        self.adds_bos: bool = parts.adds_bos
        self.strips_leading_space: bool = parts.strips_leading_space
        self.special_tokens: Mapping[str, str] = parts.special_tokens
        self.missing_bytes: frozenset[int] = self._encoder.missing_bytes
        self.control_finder: ControlFinder = self._encoder.control_finder

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
        if parse_special and literal_spans:
            ids = self._encoder.encode_around(text, literal_spans)
        else:
            ids = self._encoder.encode_text(text, Start.TEXT, parse_special)
        return self._with_bos(ids) if add_bos else ids

    def encode_bytes(self, data: bytes, *, add_bos: bool = True, parse_special: bool = False) -> list[int]:
        """Ids of bytes, exactly: nothing is normalized, and bytes that are no UTF-8 are spelled one by one.

        (With `parse_special`, control tokens that swallow blanks around them do so here too.)
        Raises BadRequest for a byte the vocabulary has no token for, naming it and where it is.
        """
        ids = self._encoder.encode_data(data, Start.BYTES, parse_special)
        return self._with_bos(ids) if add_bos else ids

    def _with_bos(self, ids: list[int]) -> list[int]:
        if not self.adds_bos or self.bos_id is None or ids[:1] == [self.bos_id]:
            return ids
        return [self.bos_id, *ids]

    def token_bytes(self, token_id: int) -> bytes:
        """What this token adds to the text; b"" for control, unknown and unused tokens."""
        return self._vocabulary.token_bytes(token_id)

    def all_token_bytes(self) -> tuple[bytes, I64]:
        """`token_bytes` of every id one after the other, and where each begins and the last ends (V + 1,)."""
        return self._vocabulary.all_token_bytes()

    def decode_bytes(
        self, ids: Iterable[int], *, skip_special: bool = True, continues: bool = False
    ) -> bytes:
        """The bytes of a sequence; control tokens are written out unless `skip_special`.

        `continues` says that the ids follow an earlier text: then the result is exactly the sum of
        `token_bytes`, and the leading space of `strips_leading_space` models stays.
        """
        return self._vocabulary.decode_bytes(ids, skip_special, continues)

    def decode(self, ids: Iterable[int], *, skip_special: bool = True, continues: bool = False) -> str:
        """`decode_bytes` as text; bytes that are no UTF-8 become U+FFFD."""
        return self._vocabulary.decode_bytes(ids, skip_special, continues).decode("utf-8", "replace")

    def token_text(self, token_id: int) -> str:
        """For display: control tokens by name, bytes that are no character as \\xe4."""
        return self._vocabulary.literal(token_id).decode("utf-8", "backslashreplace")

    def is_special(self, token_id: int) -> bool:
        """True for tokens that are never text: control, unknown, unused."""
        return self._vocabulary.is_special(token_id)

    def kind(self, token_id: int) -> TokenKind:
        return TokenKind(self._vocabulary.kind(token_id))

    def token_id(self, text: str) -> int | None:
        """The id of the token spelled exactly so ("<|im_end|>", "hello"), if there is one."""
        return self._vocabulary.token_id(text)
