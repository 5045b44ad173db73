"""Citation support: whether what an answer quotes stands in the sources that it was given."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Final

from unspool.errors import BadRequest, brief, named
from unspool.light_dataclass import dataclass
from unspool.search.verifiers.base import Alone, Verdict
from unspool.search.verifiers.settings import check_texts, check_whole
from unspool.types import Completion

# A span in quotation marks of one kind, and a label in brackets behind it: "..." [2]
_QUOTE: Final = re.compile(
    r"(?:\"(?P<a>[^\"]+)\"|“(?P<b>[^”]+)”|„(?P<c>[^“”]+)[“”]|«(?P<d>[^»]+)»)(?:\s*\[(?P<label>[^\[\]]{1,40})\])?"
)
_GAP: Final = re.compile(r"\[\s*(?:\.{3}|…)\s*\]|\(\s*(?:\.{3}|…)\s*\)|\.{3}|…")
_DASHES: Final = dict.fromkeys(map(ord, "‐‑‒–—−"), "-")
_MARKS: Final = dict.fromkeys(map(ord, "‘’‚‛`´"), "'") | dict.fromkeys(map(ord, "“”„«»"), '"')


@dataclass(frozen=True, slots=True)
class Citations(Alone):
    """Accepts an answer that quotes, and whose every quotation is in a source.

    The score is the share of its quotations that are. Spaces, kinds of dashes and quotation marks, and case
    do not matter; words do. An ellipsis stands for words left out: the parts must follow each other in one
    source. A quotation followed by [label] must be in the source of that label. Spans shorter than
    `min_words` words are taken for emphasis and left out.
    """

    sources: Mapping[str, str]  # label to text
    min_words: int = 3

    def __post_init__(self) -> None:
        if not isinstance(self.sources, Mapping) or not self.sources:
            raise BadRequest(
                f"{named('sources')} must map labels to texts, got {brief(self.sources)}",
                way_out="give at least one",
                code="bad_verifier",
            )
        check_texts("sources", self.sources)
        check_whole("min_words", self.min_words, 0, 1 << 20)

    def __call__(self, prompt: str, completion: Completion) -> Verdict:
        texts = {label: _plain(text) for label, text in self.sources.items()}
        spans = [
            (span, match["label"])
            for match in _QUOTE.finditer(completion.text)
            if len((span := next(s for s in match.group("a", "b", "c", "d") if s)).split()) >= self.min_words
        ]
        if not spans:
            return Verdict(0.0, False, detail="quotes nothing")
        missing = [span for span, label in spans if not _is_supported(span, label, texts)]
        n_found = len(spans) - len(missing)
        detail = f"{n_found} of {len(spans)} quotations are in the sources"
        if missing:
            detail += f"; not there: {brief(missing[0])}"
        return Verdict(n_found / len(spans), not missing, detail=detail)


def _is_supported(span: str, label: str | None, texts: Mapping[str, str]) -> bool:
    among = [texts[label]] if label is not None and label in texts else list(texts.values())
    parts = [part for part in map(_trimmed, _GAP.split(span)) if part]
    return bool(parts) and any(_has_in_order(parts, text) for text in among)


def _has_in_order(parts: list[str], text: str) -> bool:
    start = 0
    for part in parts:
        match = re.compile(rf"(?<!\w){re.escape(part)}(?!\w)").search(text, start)
        if match is None:
            return False
        start = match.end()
    return True


def _trimmed(text: str) -> str:
    """A part of a quotation; punctuation at its ends may be the quoter's."""
    return _plain(text).strip(" .,;:!?'\"-")


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).translate(_DASHES | _MARKS).casefold()
    return " ".join(folded.split())
