"""Finding control tokens that are written out in a text."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from unspool.models.tokenizer.parts import AddedPiece


class ControlFinder:
    """The leftmost, and there the longest, as the tokenizers library finds them.

    A vocabulary may hold thousands (Gemma's <unused0> to <unused6241>): an expression of so many branches
    takes a quarter of a second to compile, so only their first characters are searched for.
    """

    def __init__(self, pieces: Iterable[AddedPiece]) -> None:
        self._pieces = {piece.text: piece for piece in pieces if piece.is_control}
        self._lengths = sorted({len(text) for text in self._pieces}, reverse=True)
        firsts = "".join(sorted({re.escape(text[0]) for text in self._pieces}))
        self._first = re.compile(f"[{firsts}]" if firsts else "(?!)")

    def find(self, text: str, start: int = 0) -> Iterator[tuple[int, AddedPiece]]:
        """(where, what), none overlapping another."""
        end = start
        for match in self._first.finditer(text, start):
            at = match.start()
            if at < end:
                continue
            for length in self._lengths:
                piece = self._pieces.get(text[at : at + length])
                if piece is not None:
                    yield at, piece
                    end = at + length
                    break

    def find_outside(self, text: str, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, AddedPiece]]:
        """Those that touch none of the spans (begin, end), ascending and apart."""
        pairs = list(spans)
        ends = [stop for _, stop in pairs]

        def touches(at: int, end: int) -> bool:
            index = bisect_right(ends, at)  # the first span that ends after `at`
            return index < len(pairs) and pairs[index][0] < end

        start, again = 0, True
        while again:
            again = False
            for at, piece in self.find(text, start):
                if touches(at, at + len(piece.text)):
                    start, again = at + 1, True  # another may begin inside the one that does not count
                    break
                yield at, piece
