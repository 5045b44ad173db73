"""Log-probabilities as verifiers: which answer the model itself finds likeliest.

Sums favour short answers, means long ones; Wu et al. 2016 (arXiv 1609.08144) is in between. All count the
tokens that stay in the answer: the one that ended it is among them with `include_stop` only. An empty answer
has nothing to go by and comes last.
"""

from __future__ import annotations

import math

from unspool.errors import BadRequest
from unspool.light_dataclass import dataclass
from unspool.search.length_norm import Kind, LengthNorm
from unspool.search.verifiers.base import Alone, Verdict, reaches
from unspool.search.verifiers.settings import check_accept_at
from unspool.types import Completion


@dataclass(frozen=True, slots=True)
class _Logprob(Alone):
    accept_at: float | None = None  # accept an answer with at least this score
    final: bool = False  # among the survivors of the last stage, and not the model's own

    def __post_init__(self) -> None:
        check_accept_at(self.accept_at)

    @property
    def needs_logprobs(self) -> bool:
        return True

    def __call__(self, prompt: str, completion: Completion) -> Verdict:
        n_tokens = len(completion.token_ids)
        if n_tokens == 0:
            return Verdict(-math.inf, reaches(-math.inf, self.accept_at), detail="the answer is empty")
        total = sum_logprob(completion, final=self.final)
        score = total / self._length(n_tokens)
        return Verdict(score, reaches(score, self.accept_at), detail=f"{total:.3f} over {n_tokens} tokens")

    def _length(self, n_tokens: int) -> float:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class SumLogprob(_Logprob):
    """The log-probability of the whole answer."""

    def _length(self, n_tokens: int) -> float:
        return 1.0


@dataclass(frozen=True, slots=True)
class MeanLogprob(_Logprob):
    """The log-probability of a token of the answer, on average."""

    def _length(self, n_tokens: int) -> float:
        return float(n_tokens)


@dataclass(frozen=True, slots=True)
class NormalisedLogprob(_Logprob):
    """The log-probability of the whole answer over a norm of its length, as beams have it."""

    norm: Kind = "gnmt"
    alpha: float = 0.6

    def __post_init__(self) -> None:
        check_accept_at(self.accept_at)
        LengthNorm(self.norm, self.alpha)  # refuses what is none

    def _length(self, n_tokens: int) -> float:
        return LengthNorm(self.norm, self.alpha)(n_tokens)


def sum_logprob(completion: Completion, *, final: bool = False) -> float:
    """Natural log of the answer's probability. Raises BadRequest for one without log-probabilities."""
    if len(completion.logprobs) != len(completion.token_ids):
        raise BadRequest(
            "the answer has no log-probabilities to judge by; ask for them with logprobs=0",
            code="no_logprobs",
        )
    tokens = [entry.token for entry in completion.logprobs]
    if not final:
        return math.fsum(token.logprob for token in tokens)
    return math.fsum(token.logprob_final for token in tokens if token.logprob_final is not None)
