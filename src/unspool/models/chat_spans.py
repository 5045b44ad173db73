"""Which tokens of a rendered conversation are its messages' own words, and which the template wrote."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from unspool.models.chat_marks import ControlMarks
from unspool.models.chat_messages import REASONING_FIELDS
from unspool.models.tokenizer import Tokenizer

_WORDS: Final = ("content", *REASONING_FIELDS)
_THINKING: Final = re.compile(r"</?think>")  # where templates take a content apart
_FAR: Final = 64  # bytes that a tokenizer may leave out between two tokens: blanks, mostly

Span = tuple[int, int]


def words_of(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What the messages say, each text without the blanks around it, in order."""
    for message in messages:
        for field in _WORDS:
            value = message.get(field)
            texts = [part["text"] for part in value] if isinstance(value, list) else [value]
            for text in texts:
                if isinstance(text, str):
                    yield from (text[begin:end] for begin, end in _word_spans(text))


def marked_words(
    messages: Sequence[Mapping[str, Any]], marks: ControlMarks, *, with_blanks: bool
) -> list[dict[str, Any]]:
    """Copies of the messages with marks around what they say: with the blanks around that, or inside of
    them, where they hinder no template from trimming."""

    def mark(value: Any) -> Any:
        if isinstance(value, list):
            return [{**part, "text": mark(part["text"])} for part in value]
        return marks.mark(value, _word_spans(value, with_blanks)) if isinstance(value, str) else value

    return [{key: mark(v) if key in _WORDS else v for key, v in message.items()} for message in messages]


def spans_in_order(text: str, words: Iterator[str]) -> list[Span]:
    """Where the words stand in a text, each searched for behind the one before it. What a template changed
    is not found, and counts as the template's."""
    spans, at = [], 0
    for word in words:
        begin = text.find(word, at)
        if begin >= 0:
            at = begin + len(word)
            spans.append((begin, at))
    return spans


def positions_outside(
    token_ids: Sequence[int], text: str, spans: Sequence[Span], tokenizer: Tokenizer
) -> frozenset[int]:
    """Positions of the tokens that are not wholly within one of the spans, ascending pairs of characters."""
    data = text.encode()
    inside = [(len(text[:begin].encode()), len(text[:end].encode())) for begin, end in spans]
    begins = [begin for begin, _ in inside]
    outside, at = set(), 0
    for position, token_id in enumerate(token_ids):
        begin, end = _place(data, at, tokenizer.decode_bytes([token_id], skip_special=False, continues=True))
        index = bisect_right(begins, begin) - 1
        if begin == end or index < 0 or end > inside[index][1]:
            outside.add(position)
        at = end
    return frozenset(outside)


def _place(data: bytes, at: int, piece: bytes) -> Span:
    """Where a token stands in the text, looked for from `at` on: it may be there but for the space that some
    vocabularies put before words, or behind blanks that were left out; BOS and what normalization changed
    stand nowhere."""
    if data.startswith(piece, at):
        return at, at + len(piece)
    if piece.startswith(b" ") and data.startswith(piece[1:], at):
        return at, at + len(piece) - 1
    found = data.find(piece, at, at + _FAR + len(piece))
    return (found, found + len(piece)) if found >= 0 else (at, at)


def _word_spans(text: str, with_blanks: bool = False) -> Iterator[Span]:
    begin = 0
    for end, following in [*((tag.start(), tag.end()) for tag in _THINKING.finditer(text)), (len(text), 0)]:
        piece = text[begin:end]
        if piece.strip():
            n_before, n = (0, len(piece)) if with_blanks else _trimmed(piece)
            yield begin + n_before, begin + n
        begin = following


def _trimmed(text: str) -> Span:
    return len(text) - len(text.lstrip()), len(text.rstrip())
