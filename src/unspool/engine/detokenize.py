"""Bytes to text while they arrive, never half a character."""

from __future__ import annotations

import codecs
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

_UTF8: Final = codecs.getincrementaldecoder("utf-8")
_NOTHING_WAITS: Final = (b"", 0)  # the state of a decoder between two characters


class Vocabulary(Protocol):
    """What the engine asks of a tokenizer."""

    @property
    def vocab_size(self) -> int: ...

    @property
    def eos_ids(self) -> frozenset[int]:
        """Ids that end a text."""
        ...

    def token_bytes(self, token_id: int) -> bytes:
        """What the token adds to the text; nothing for control tokens."""
        ...

    def all_token_bytes(self) -> tuple[bytes, npt.NDArray[np.int64]]:
        """`token_bytes` of every id one after the other, and where each begins and the last ends (V + 1,)."""
        ...

    def encode(self, text: str, *, add_bos: bool = True) -> list[int]:
        """Ids of a text from its beginning; what looks like a control token in it is plain text."""
        ...

    def token_text(self, token_id: int) -> str:
        """For display: control tokens by name, bytes that are no character as \\xe4."""
        ...


class Detokenizer:
    """UTF-8 to text in pieces that join to `data.decode("utf-8", errors="replace")` of the whole.

    An incomplete character waits for its other bytes; what can no longer become one is U+FFFD at once.
    """

    def __init__(self) -> None:
        self._decoder = _UTF8(errors="replace")
        self._waits = False  # for the other bytes of a character
        self._n_accepted = 0
        self._waited: list[tuple[int, tuple[bytes, int]]] = []  # which accepts found what waiting, ascending

    def accept(self, data: bytes, *, final: bool = False) -> str:
        """The text that the next bytes complete; with `final` also what an incomplete character leaves."""
        self._n_accepted += 1
        if not self._waits and data.isascii():  # mostly, and the same in fewer steps
            return data.decode()
        if self._waits:
            self._waited.append((self._n_accepted - 1, self._decoder.getstate()))
        text = self._decoder.decode(data, final)
        self._waits = self._decoder.getstate() != _NOTHING_WAITS
        return text

    def rollback(self, n: int) -> None:
        """Undo the last n accepts."""
        if n:
            assert n <= self._n_accepted, f"cannot undo {n} of {self._n_accepted} pieces"
            self._n_accepted -= n
            state = _NOTHING_WAITS
            while self._waited and self._waited[-1][0] >= self._n_accepted:
                at, waiting = self._waited.pop()
                if at == self._n_accepted:
                    state = waiting
            self._decoder.setstate(state)
            self._waits = state != _NOTHING_WAITS

    def fork(self) -> Detokenizer:
        copy = Detokenizer()
        copy._decoder.setstate(self._decoder.getstate())
        copy._waits = self._waits
        copy._n_accepted = self._n_accepted
        copy._waited = self._waited.copy()
        return copy
