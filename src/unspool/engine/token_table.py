"""The bytes of every token of a vocabulary, and which tokens hold a text."""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from unspool.engine.detokenize import Vocabulary
from unspool.types import Ids


class TokenTable:
    """Made once for a vocabulary and kept as long as it lives; so is what tokens hold.

    The bytes of all tokens stand one after the other in one array, so that a search is a few passes over a
    megabyte and not a step per token.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        pieces = [vocabulary.token_bytes(token_id) for token_id in range(vocabulary.vocab_size)]
        self._data = np.frombuffer(b"".join(pieces), np.uint8)
        ends = np.cumsum([0, *map(len, pieces)])
        self._start, self._end = ends[:-1], ends[1:]  # (V,) where each token begins and ends
        self._holding: dict[bytes, frozenset[int]] = {}

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> TokenTable:
        table = _TABLES.get(vocabulary)
        if table is None:
            table = _TABLES[vocabulary] = cls(vocabulary)
        return table

    def holding(self, data: bytes) -> frozenset[int]:
        """Tokens whose text holds these bytes."""
        if data not in self._holding:
            at = self._stands(np.arange(self._data.size - len(data) + 1), data)
            token_ids = np.searchsorted(self._end, at, side="right")  # that each of these offsets lies in
            whole = at + len(data) <= self._end[token_ids]  # and not across the border of two
            self._holding[data] = frozenset(token_ids[whole].tolist())
        return self._holding[data]

    def equal(self, data: bytes) -> list[int]:
        """Tokens whose text is these bytes, ascending."""
        token_ids = np.flatnonzero(self._end - self._start == len(data))
        found: list[int] = token_ids[self._stands(self._start[token_ids], data)].tolist()
        return found

    def ending(self, data: bytes) -> list[int]:
        """Tokens whose text ends with these bytes, ascending."""
        token_ids = np.flatnonzero(self._end - self._start >= len(data))
        found: list[int] = token_ids[self._stands(self._end[token_ids] - len(data), data)].tolist()
        return found

    def _stands(self, offsets: Ids, data: bytes) -> Ids:
        """Indices of those offsets (n,) at which these bytes stand."""
        indices = np.arange(offsets.size)
        for i, byte in enumerate(data):
            indices = indices[self._data[offsets[indices] + i] == byte]
        return indices


_TABLES: Final[WeakKeyDictionary[Vocabulary, TokenTable]] = WeakKeyDictionary()
