"""What a verifier is: it judges answers one by one, and ranks those that it has judged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from unspool.errors import BadRequest
from unspool.light_dataclass import dataclass
from unspool.types import Completion


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a verifier says about one answer."""

    score: float  # higher is better; comparable among the answers of one verifier; may be -inf, never NaN
    accepted: bool | None = None  # None: it scores, and does not say whether the answer will do
    answer: str | None = None  # the final answer found in the text, in one spelling; votes count these
    detail: str = ""  # one line for people: what failed, what was found

    def __post_init__(self) -> None:
        if math.isnan(self.score):
            raise BadRequest("a verdict's score must be a number, got nan; use -inf for the worst")


@dataclass(frozen=True, slots=True)
class Vote:
    """How many answers came to the same result."""

    answer: str
    n: int
    weight: float  # n, or in a weighted vote the sum of the voters' weights


@dataclass(frozen=True, slots=True)
class Ranking:
    """Judged answers, the best first."""

    order: tuple[int, ...]  # indices of the verdicts
    is_decided: bool  # whether no answer that is still to come needs to be waited for
    votes: tuple[Vote, ...] = ()  # the most first; none where nothing was voted on


class Verifier(Protocol):
    """Judges answers. It keeps no state: the same answer has the same verdict.

    Raises unspool.errors.VerifierError for an answer that could not be judged, which is no bad one.
    """

    @property
    def needs_logprobs(self) -> bool:
        """Whether it reads `completion.logprobs`."""
        ...

    def __call__(self, prompt: str, completion: Completion) -> Verdict: ...

    def rank(self, verdicts: Sequence[Verdict], n_left: int) -> Ranking:
        """Rank the answers judged so far, where n_left more may follow."""
        ...


class Alone:
    """A base for verifiers to which one answer is no news about another: accepted ones first, then by score,
    then by age. One that is accepted decides.
    """

    __slots__ = ()

    @property
    def needs_logprobs(self) -> bool:
        return False

    @property
    def ignores_case(self) -> bool:
        """Whether answers that differ in case alone are one in a vote."""
        return False

    def rank(self, verdicts: Sequence[Verdict], n_left: int) -> Ranking:
        order = sorted(range(len(verdicts)), key=lambda i: (not verdicts[i].accepted, -verdicts[i].score, i))
        return Ranking(tuple(order), any(verdict.accepted for verdict in verdicts))


def reaches(score: float, accept_at: float | None) -> bool | None:
    """Whether a score is enough, where somebody has said what is."""
    return None if accept_at is None else score >= accept_at
