"""Bytes to text while they arrive, never half a character."""

from __future__ import annotations

import codecs
from typing import Final, Protocol

_UTF8: Final = codecs.getincrementaldecoder("utf-8")


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

    def token_text(self, token_id: int) -> str:
        """For display: control tokens by name, bytes that are no character as \\xe4."""
        ...


class Detokenizer:
    """UTF-8 to text in pieces that join to `data.decode("utf-8", errors="replace")` of the whole.

    An incomplete character waits for its other bytes; what can no longer become one is U+FFFD at once.
    """

    def __init__(self) -> None:
        self._decoder = _UTF8(errors="replace")

    def accept(self, data: bytes, *, final: bool = False) -> str:
        """The text that the next bytes complete; with `final` also what an incomplete character leaves."""
        return self._decoder.decode(data, final)

    def fork(self) -> Detokenizer:
        copy = Detokenizer()
        copy._decoder.setstate(self._decoder.getstate())
        return copy
