"""The bytes of every token of a vocabulary, and which tokens hold a text."""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from unspool.engine.detokenize import Vocabulary
from unspool.types import Ids

_MOST_KEPT: Final = 256  # answers; the texts asked about come from requests


class TokenTable:
    """Made once for a vocabulary and kept as long as it lives; so are answers, up to a number of them.

    The bytes of all tokens stand one after the other in one array, so that a search is a few passes over a
    megabyte and not a step per token.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._bytes, borders = vocabulary.all_token_bytes()
        self._data = np.frombuffer(self._bytes, np.uint8)
        self._start, self._end = borders[:-1], borders[1:]  # (V,) where each token begins and ends
        n_bytes = np.diff(borders)
        self.longest = int(n_bytes.max(initial=0))  # token, in bytes
        self._by_length = np.argsort(n_bytes, kind="stable")  # (V,) ids, the shortest first
        self._first_of_length = np.searchsorted(n_bytes[self._by_length], np.arange(self.longest + 2))
        self._holding: dict[bytes, frozenset[int]] = {}

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> TokenTable:
        table = _TABLES.get(vocabulary)
        if table is None:
            table = _TABLES[vocabulary] = cls(vocabulary)
        return table

    def holding(self, data: bytes) -> frozenset[int]:
        """Tokens whose text holds these bytes."""
        found = self._holding.get(data)
        if found is None:
            # Several engines, each with a thread, may have one vocabulary: another may be here, too.
            for oldest in [*self._holding][: max(len(self._holding) + 1 - _MOST_KEPT, 0)]:
                self._holding.pop(oldest, None)
            found = self._holding[data] = self._find(data)
        return found

    def equal(self, data: bytes) -> tuple[int, ...]:
        """Tokens whose text is these bytes, ascending; control tokens, which have none, are left out."""
        if not 0 < len(data) <= self.longest:
            return ()
        token_ids = self._by_length[slice(*self._first_of_length[len(data) : len(data) + 2])]
        return tuple(token_ids[self._stands(self._start[token_ids], data)].tolist())

    def ending(self, data: bytes) -> list[int]:
        """Tokens whose text ends with these bytes, ascending."""
        token_ids = np.flatnonzero(self._end - self._start >= len(data))
        found: list[int] = token_ids[self._stands(self._end[token_ids] - len(data), data)].tolist()
        return found

    def siblings(self, token_id: int) -> tuple[int, ...]:
        """Other tokens that write the same word, ascending: with or without a space before it, in small
        letters, capitals or with one capital. What holds for an id holds for none of them."""
        text = self._bytes[self._start[token_id] : self._end[token_id]].decode("utf-8", "surrogateescape")
        word = text.removeprefix(" ")
        forms = {word, word.lower(), word.upper(), word.capitalize()} - {""}
        alike = {
            sibling
            for form in forms
            for spaced in (form, f" {form}")
            for sibling in self.equal(spaced.encode("utf-8", "surrogateescape"))
        }
        return tuple(sorted(alike - {token_id}))

    def _find(self, data: bytes) -> frozenset[int]:
        at = self._stands(np.arange(self._data.size - len(data) + 1), data)
        token_ids = np.searchsorted(self._end, at, side="right")  # that each of these offsets lies in
        whole = at + len(data) <= self._end[token_ids]  # and not across the border of two
        return frozenset(token_ids[whole].tolist())

    def _stands(self, offsets: Ids, data: bytes) -> Ids:
        """Indices of those offsets (n,) at which these bytes stand."""
        indices = np.arange(offsets.size)
        for i, byte in enumerate(data):
            if not indices.size:
                break
            indices = indices[self._data[offsets[indices] + i] == byte]
        return indices


_TABLES: Final[WeakKeyDictionary[Vocabulary, TokenTable]] = WeakKeyDictionary()
