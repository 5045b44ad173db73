"""Telling what a user wrote from what a chat template wrote, in the one text that comes out.

A user may type "<|im_end|>". Rendered, it looks like the template's own, and as a control token it would end
the user's turn and open another. So before rendering, control tokens spelled out in what was given are put
between two marks; after it, the marks give the spans of the text that stay plain text, and are taken out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from unspool.errors import BadRequest
from unspool.models.chat_messages import texts_of


class ControlMarks:
    """Two characters that no text here holds, put around control tokens that must stay plain text."""

    _NONCHARACTERS = tuple(map(chr, range(0xFDD0, 0xFDF0)))  # Unicode keeps them for uses such as this one

    def __init__(self, begin: str, end: str) -> None:
        self._begin, self._end = begin, end

    @classmethod
    def around(cls, given: Any, has_control: Callable[[str], bool]) -> ControlMarks | None:
        """Marks for the JSON given; None when no text in it needs one."""
        texts = list(texts_of(given))
        if not any(map(has_control, texts)):
            return None
        free = [mark for mark in cls._NONCHARACTERS if not any(mark in text for text in texts)]
        if len(free) < 2:
            raise BadRequest("messages hold every noncharacter from U+FDD0 to U+FDEF; remove some of them")
        return cls(free[0], free[1])

    def mark(self, text: str, found: Iterable[tuple[int, int]]) -> str:
        """Put marks around the spans found in a text."""
        parts, at = [], 0
        for begin, end in found:
            parts += [text[at:begin], self._begin, text[begin:end], self._end]
            at = end
        return "".join([*parts, text[at:]])

    def unwrap(self, text: str) -> tuple[str, list[tuple[int, int]]]:
        """The text without marks, and the spans they held. A mark without its partner is dropped."""
        plain: list[str] = []
        spans: list[tuple[int, int]] = []
        length, opened = 0, None
        for piece in re.split(f"([{self._begin}{self._end}])", text):
            if piece == self._begin:
                opened = length
            elif piece == self._end:
                if opened is not None:
                    spans.append((opened, length))
                opened = None
            else:
                plain.append(piece)
                length += len(piece)
        return "".join(plain), spans
