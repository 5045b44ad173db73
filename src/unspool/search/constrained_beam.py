"""Constrained beam search: the likeliest texts among those that contain given phrases.

A forced phrase makes a hypothesis unlikely for a while, so hypotheses compete only with those that have as
many of the phrases' tokens: each number of tokens has a bank (grid beam search, Hokamp and Liu 2017, arXiv
1704.07138), and the banks share one width (dynamic beam allocation, Post and Vilar 2018, arXiv 1804.06609).
The places of a step are dealt in rounds, one for each bank that has somebody left, the fullest bank first. A
hypothesis may end only when its text contains every phrase.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, ClassVar, Final, TypeAlias, cast

from unspool.errors import BadRequest, brief, in_python
from unspool.light_dataclass import dataclass
from unspool.params import DecodingParams
from unspool.search.base import Advance, Asked
from unspool.search.beam_settings import BeamSettings
from unspool.search.constrained_step import ConstrainedState, advance_constrained
from unspool.search.groups import n_heads
from unspool.search.phrases import START, Phrases, Spelling
from unspool.search.settings import refuse_drawing
from unspool.search.spellings import spelled_in
from unspool.types import Processed, Row

# A text, token ids, or a sequence of either of which one is enough.
Phrase: TypeAlias = str | Sequence[int] | Sequence[str | Sequence[int]]
MOST_PHRASES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstrainedBeam(BeamSettings):
    """A beam of texts that contain every phrase.

    phrases     what each answer must contain, 64 at most: a text, a list of token ids, or a list of texts and
                lists of token ids, one of which is enough. A text counts as the vocabulary writes it, with a
                space before it or without; one that begins with a space only so. Phrases may overlap
    width       hypotheses that live at once, of all banks. One more than the tokens of all phrases gives each
                bank a place. [1, 256]
    n_best, length_norm, alpha, early_stopping   as in Beam
    """

    width: int = 8
    phrases: Sequence[Phrase]
    compiled: Phrases | None = field(default=None, repr=False, compare=False)  # by `bound`, for a request

    good_width: ClassVar[str] = "more than the phrases have tokens is a good width"

    def __post_init__(self) -> None:
        BeamSettings.__post_init__(self)
        object.__setattr__(self, "phrases", _checked(self.phrases))

    @property
    def n_candidates(self) -> int:
        return n_heads(self.width) + 1  # once all phrases are there; before that it asks for all

    def check(self, params: DecodingParams) -> None:
        refuse_drawing(params, "a constrained beam search")

    def bound(self, asked: Asked) -> ConstrainedBeam:
        alternatives = cast("Sequence[Sequence[str | Spelling]]", self.phrases)  # as __post_init__ left them
        compiled = Phrases([spelled_in(phrase, asked) for phrase in alternatives])
        if not compiled.fits(START, asked.n_new_max):
            raise BadRequest(
                f"the phrases take at least {compiled.n_needed(START)} tokens and the answer has room for "
                f"{asked.n_new_max}; raise max_tokens, or give fewer phrases",
                code="bad_phrases",
            )
        return replace(self, compiled=compiled)

    def start(self) -> ConstrainedState:
        return ConstrainedState()

    def standing(self, state: ConstrainedState) -> tuple[tuple[int, float], ...]:
        return state.standing(self.n_best)

    def advance(
        self, state: ConstrainedState, rows: Sequence[Row], processed: Sequence[Processed]
    ) -> Advance[ConstrainedState]:
        assert self.compiled is not None, "the engine binds a search to its request"
        rule = self.rule(self.width)
        return advance_constrained(rule, self.compiled, self.n_best, state, rows, processed)


def _checked(phrases: Any) -> tuple[tuple[str | tuple[int, ...], ...], ...]:
    """Every phrase as its alternatives. Raises BadRequest."""
    if isinstance(phrases, (str, bytes)) or not isinstance(phrases, Sequence) or not phrases:
        raise _refusal(f"phrases must be a list of phrases, got {brief(phrases)}")
    if len(phrases) > MOST_PHRASES:
        raise _refusal(f"phrases must be at most {MOST_PHRASES}, got {len(phrases)}")
    found = [_alternatives(phrase) for phrase in phrases]
    for i, alternatives in enumerate(found):
        if alternatives in found[:i]:
            raise _refusal(f"phrases holds {brief(phrases[i])} twice, which once meets both; give it once")
    return tuple(found)


def _alternatives(phrase: Any) -> tuple[str | tuple[int, ...], ...]:
    if isinstance(phrase, str) or _is_ids(phrase):
        alternatives = [phrase]
    elif isinstance(phrase, Sequence) and not isinstance(phrase, bytes):
        alternatives = list(phrase)
    else:
        alternatives = []
    for each in alternatives:
        if not ((isinstance(each, str) or _is_ids(each)) and len(each)):
            alternatives = []
    if not alternatives:
        raise _refusal(
            f"a phrase must be a text, a list of token ids, or a list of alternatives, got {brief(phrase)}"
        )
    return tuple(each if isinstance(each, str) else tuple(map(int, each)) for each in alternatives)


def _is_ids(value: Any) -> bool:
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        return False
    return all(isinstance(i, int) and not isinstance(i, bool) for i in value)


def _refusal(problem: str) -> BadRequest:
    example = in_python("; write phrases=['a text', [12, 7], ['one way', 'another']]")
    return BadRequest(f"{problem}{example}", code="bad_phrases")
