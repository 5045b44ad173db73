"""How a vocabulary writes a text in the middle of another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from unspool.engine.detokenize import Vocabulary

# What may stand before the text, for vocabularies that begin every text with a space of their own: the ids
# that make up the text alone are cut out behind it.
_ANCHORS: Final = ("", "\n", ".", "a")


def spell(text: str, vocabulary: Vocabulary) -> tuple[int, ...] | None:
    """The ids whose bytes are exactly this text's; None when the vocabulary cannot write it."""
    data = text.encode()
    for anchor in _ANCHORS:
        ids = vocabulary.encode(anchor + text, add_bos=False)
        start = _start_of_tail(ids, data, vocabulary)
        if start is not None:
            return tuple(ids[start:])
    return None


def _start_of_tail(ids: Sequence[int], data: bytes, vocabulary: Vocabulary) -> int | None:
    """Where the last ids begin whose bytes are `data` together."""
    n_bytes, start = 0, len(ids)
    while start and n_bytes < len(data):
        start -= 1
        n_bytes += len(vocabulary.token_bytes(ids[start]))
    spelled = b"".join(map(vocabulary.token_bytes, ids[start:]))
    return start if spelled == data else None
