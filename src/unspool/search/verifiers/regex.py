"""A regular expression that an answer must have a match of."""

from __future__ import annotations

import re
from dataclasses import field

from unspool.errors import BadRequest, brief, named
from unspool.light_dataclass import dataclass
from unspool.search.verifiers.base import Alone, Verdict
from unspool.search.verifiers.letter_case import ignores_case
from unspool.types import Completion


@dataclass(frozen=True, slots=True)
class Regex(Alone):
    """Accepts an answer with a match; the last match is what it answers.

    Python's `re`, so a pattern such as (a+)+$ may take very long on a text made for it. The answer is the
    group called `answer`, else the first group, else the match, without spaces at its ends.
    """

    pattern: str
    whole: bool = False  # the pattern must match the whole text, spaces at its ends left out
    ignore_case: bool = False
    _compiled: re.Pattern[str] = field(init=False, repr=False, compare=False)
    _ignores_case: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            compiled = re.compile(self.pattern, re.IGNORECASE if self.ignore_case else 0)
            is_one = ignores_case(compiled, _groups_of(compiled))
        except (re.error, TypeError, RecursionError, OverflowError) as error:
            raise BadRequest(
                f"{named('pattern')} must be a regular expression, got {brief(self.pattern)}: {error}",
                way_out="a backslash before a sign makes it text",
                code="bad_verifier",
            ) from None
        object.__setattr__(self, "_compiled", compiled)
        object.__setattr__(self, "_ignores_case", is_one)

    @property
    def ignores_case(self) -> bool:
        """Whether the pattern does wherever the answer has a letter: by the setting, or by a flag as in
        (?i)yes|no or Answer: ((?i:yes|no))."""
        return self._ignores_case

    def __call__(self, prompt: str, completion: Completion) -> Verdict:
        match = self._match(completion.text)
        if match is None:
            return Verdict(0.0, False, detail="no match")
        answer = _answer_of(match)
        return Verdict(1.0, True, answer, f"matches {brief(match.group())}")

    def _match(self, text: str) -> re.Match[str] | None:
        if self.whole:
            return self._compiled.fullmatch(text.strip())
        last = None
        for match in self._compiled.finditer(text):
            last = match
        return last


def _groups_of(pattern: re.Pattern[str]) -> tuple[int, ...]:
    """The groups that may be the answer: the first of them that a match has is."""
    named_so = pattern.groupindex.get("answer")
    return tuple(number for number in (named_so, 1 if pattern.groups else None) if number is not None)


def _answer_of(match: re.Match[str]) -> str:
    found = (match.group(number) for number in _groups_of(match.re))
    return next((text for text in found if text is not None), match.group()).strip()
