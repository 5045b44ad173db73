"""Self-consistency: the result that most answers come to (Wang et al. 2022, arXiv 2203.11171)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from unspool.light_dataclass import dataclass
from unspool.search.verifiers.base import Ranking, Verdict, Verifier, Vote
from unspool.search.verifiers.logprob import sum_logprob
from unspool.search.verifiers.settings import refused
from unspool.types import Completion


class Finder(Verifier, Protocol):
    """A verifier that finds the final answer in a text."""

    @property
    def ignores_case(self) -> bool:
        """Whether answers that differ in case alone are one."""
        ...


@dataclass(frozen=True, slots=True)
class Majority:
    """Each answer votes for the result that `answers` finds in it; without one it abstains.

    Plain: a vote each. Weighted: exp(mean log-probability) of the voter, in (0, 1], which the paper calls
    the normalised weighted sum. The results with most votes come first, the earlier one where they are
    equal; among answers with the same result the weightier.

    Where `answers` ignores case, a result is case-folded: Yes and yes are one.

    A vote is decided when those still to come cannot change who wins, each counted with the most it could
    weigh, 1. So stopping early never changes the winner.
    """

    answers: Finder
    weighted: bool = False

    def __post_init__(self) -> None:
        if not callable(self.answers) or not hasattr(self.answers, "ignores_case"):
            what = "a verifier that finds what is voted for, and says whether it `ignores_case`"
            raise refused("answers", what, self.answers)

    @property
    def needs_logprobs(self) -> bool:
        return self.weighted or self.answers.needs_logprobs

    def __call__(self, prompt: str, completion: Completion) -> Verdict:
        found = self.answers(prompt, completion)
        if found.answer is None:
            return Verdict(0.0, None, None, f"abstains: {found.detail}" if found.detail else "abstains")
        weight = self._weight(completion) if self.weighted else 1.0
        answer = found.answer.casefold() if self.answers.ignores_case else found.answer
        return Verdict(weight, None, answer, f"votes for {answer}")

    def rank(self, verdicts: Sequence[Verdict], n_left: int) -> Ranking:
        votes = _count(verdicts)
        places = {vote.answer: place for place, vote in enumerate(votes)}
        order = sorted(
            range(len(verdicts)),
            key=lambda i: (
                (places.get(verdicts[i].answer or "", len(votes)), -verdicts[i].score, i)
                if verdicts[i].answer is not None
                else (len(votes), 0.0, i)
            ),
        )
        lead = votes[0].weight - (votes[1].weight if len(votes) > 1 else 0.0) if votes else 0.0
        return Ranking(tuple(order), lead > n_left, votes)

    def _weight(self, completion: Completion) -> float:
        n_tokens = len(completion.token_ids)
        return math.exp(sum_logprob(completion) / n_tokens) if n_tokens else 0.0


def _count(verdicts: Sequence[Verdict]) -> tuple[Vote, ...]:
    """The votes, the most first and the earlier first where they are equal."""
    weights: dict[str, list[float]] = {}
    for verdict in verdicts:
        if verdict.answer is not None:
            weights.setdefault(verdict.answer, []).append(verdict.score)
    votes = [Vote(answer, len(each), math.fsum(each)) for answer, each in weights.items()]
    return tuple(sorted(votes, key=lambda vote: -vote.weight))
