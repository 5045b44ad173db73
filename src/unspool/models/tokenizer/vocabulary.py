"""Token ids to bytes: what each token of a vocabulary adds to a text."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from unspool.errors import BadRequest
from unspool.models.tokenizer.parts import TokenizerParts, TokenKind
from unspool.models.tokenizer.pieces import I64
from unspool.models.tokenizer.spelling import (
    SPACE_MARK,
    Spelling,
    byte_level_piece,
    byte_of_fallback_piece,
    bytes_of_byte_level_piece,
    bytes_of_marked_piece,
    fallback_piece,
)

_SILENT = frozenset({TokenKind.CONTROL, TokenKind.UNKNOWN, TokenKind.UNUSED})


class Vocabulary:
    """V tokens and the bytes they stand for."""

    def __init__(self, parts: TokenizerParts) -> None:
        self.size = len(parts.kinds)
        self._model = parts.model
        self._pieces = parts.pieces
        self._spelling = parts.spelling
        self._strips = parts.strips_leading_space
        self._kinds = parts.kinds.tobytes()  # quicker to index than an array
        self._added = {piece.token_id: piece.text for piece in parts.added}
        self._bytes_of: dict[int, bytes] = {}  # of the tokens that were written so far
        self._id_of_added = {piece.text: piece.token_id for piece in parts.added}

    def kind(self, token_id: int) -> int:
        """Raises BadRequest for an id outside the vocabulary."""
        if not 0 <= token_id < self.size:
            raise BadRequest(f"token id must be from 0 to {self.size - 1}, got {token_id}")
        return self._kinds[token_id]

    def is_special(self, token_id: int) -> bool:
        return self.kind(token_id) in _SILENT

    def literal(self, token_id: int) -> bytes:
        """The token written out: its bytes, or the name of a control token."""
        kind = self.kind(token_id)
        added = self._added.get(token_id)
        if added is not None and kind == TokenKind.USER_DEFINED and self._spelling is Spelling.SPACE_MARK:
            return bytes_of_marked_piece(added)  # runs of spaces, where merges make them of marks (Gemma)
        if added is not None:
            return added.encode()
        piece = self._pieces[token_id]
        if not piece and kind == TokenKind.UNUSED:  # rows of the output layer that only pad it
            return f"[{token_id}]".encode()
        if kind == TokenKind.BYTE and (byte := byte_of_fallback_piece(piece)) is not None:
            return bytes([byte])
        if self._spelling is Spelling.BYTE_LEVEL:
            return bytes_of_byte_level_piece(piece)
        return bytes_of_marked_piece(piece)

    def token_bytes(self, token_id: int) -> bytes:
        data = self._bytes_of.get(token_id)
        if data is None:
            data = b"" if self.kind(token_id) in _SILENT else self.literal(token_id)
            self._bytes_of[token_id] = data
        return data

    def all_token_bytes(self) -> tuple[bytes, I64]:
        """`token_bytes` of every id one after the other, and where each begins and the last ends (V + 1,).

        Pieces that are plain text are spelled all at once; the few others one by one, and put between.
        """
        data, ends, strange = self._pieces.spelled(self._spelling)
        kinds = np.frombuffer(self._kinds, np.uint8)
        one_by_one = kinds != TokenKind.NORMAL
        one_by_one[strange] = True
        one_by_one[list(self._added)] = True
        n_bytes = np.diff(ends)
        runs: list[bytes] = []
        first = 0  # of the bytes that are not yet put down
        for token_id in np.flatnonzero(one_by_one).tolist():
            own = self.token_bytes(token_id)
            runs += [data[first : ends[token_id]], own]
            first, n_bytes[token_id] = ends[token_id + 1], len(own)
        runs.append(data[first:])
        return b"".join(runs), np.concatenate(([0], np.cumsum(n_bytes)))

    def decode_bytes(self, ids: Iterable[int], skip_special: bool = True, continues: bool = False) -> bytes:
        strips = self._strips and not continues
        result: list[bytes] = []
        for token_id in ids:
            kind = self.kind(token_id)
            if kind in _SILENT:
                if not skip_special:
                    result.append(self.literal(token_id))
                continue
            data = self.literal(token_id)
            if strips and kind != TokenKind.USER_DEFINED:  # encoding puts no space before those
                data = data.removeprefix(b" ")
            strips = False
            result.append(data)
        return b"".join(result)

    def token_id(self, text: str) -> int | None:
        if text in self._id_of_added:
            return self._id_of_added[text]
        spelled = text.replace(" ", SPACE_MARK)
        if self._spelling is Spelling.BYTE_LEVEL:
            spelled = byte_level_piece(text.encode())
        found: int | None = self._model.token_to_id(spelled)
        return found

    def byte_ids(self) -> tuple[int | None, ...]:
        """The token of each single byte (256); None where there is none."""
        to_id = self._model.token_to_id
        if self._spelling is Spelling.BYTE_LEVEL:
            return tuple(to_id(byte_level_piece(bytes([byte]))) for byte in range(256))
        ids = [to_id(fallback_piece(byte)) for byte in range(256)]
        return tuple(i if i is not None and self._kinds[i] == TokenKind.BYTE else None for i in ids)
