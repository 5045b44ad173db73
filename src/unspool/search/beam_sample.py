"""Beam sampling: the hypotheses that live on are drawn, not the best ones taken.

At each step the continuations of all live hypotheses are one distribution, each as likely as its whole
text is beside the others, and hypotheses are drawn from it without replacement: the largest of
log-probability plus Gumbel noise (Vieira 2014, "Gumbel-max trick and weighted reservoir sampling").

transformers draws (1 + n_eos) * width of them and keeps the likeliest `width` that go on, which leans to
what is likely; here the first `width` drawn that go on are kept. Its temperature and cuts also leave
log-probabilities that are no longer those of a distribution; here they are, and scores sum them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final

from unspool.light_dataclass import dataclass
from unspool.params import DecodingParams
from unspool.rng import Noise
from unspool.search.base import Advance
from unspool.search.beam_settings import BeamSettings
from unspool.search.groups import Choosing, Group, Groups, advance, n_heads
from unspool.search.hypotheses import Hypothesis
from unspool.search.perturbing import contenders
from unspool.search.ranking import Choices
from unspool.types import F64, Processed, Row

NOISE: Final = "beam_sample"


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamSample(BeamSettings):
    """A beam whose hypotheses are drawn. All parameters have their meaning: temperature and truncation make
    the distribution that is drawn from, and the log-probabilities that a score sums.

    width, n_best, length_norm, alpha, early_stopping   as in Beam; width=1 with early_stopping=True is
                                                        sampling. Temperature 0 is a beam
    """

    n_candidates: ClassVar[int | None] = None
    draws: ClassVar[bool] = True
    good_width: ClassVar[str] = "1 is sampling"

    def check(self, params: DecodingParams) -> None:
        """Every parameter has a meaning here."""

    def start(self) -> Groups:
        return Groups((Group(),))

    def standing(self, state: Groups) -> tuple[tuple[int, float], ...]:
        return state.standing(self.n_best)

    def advance(self, state: Groups, rows: Sequence[Row], processed: Sequence[Processed]) -> Advance[Groups]:
        choices_of = perturbed(n_heads(self.width))
        return advance(self.rule(self.width), choices_of, self.n_best, state, rows, processed)


def perturbed(n: int) -> Choosing:
    """Ranked by the log-probability of the hypothesis with the token, plus noise: the order of drawing. The
    first n are looked at."""

    def choices_of(hypothesis: Hypothesis, row: Row, processed: Processed, taken: Counter[int]) -> Choices:
        plain = Choices.of(row, processed, hypothesis.logprob)
        if row.params.is_greedy:
            return plain
        noise = Noise(row.seed, row.branch, row.position, NOISE)

        def with_noise(n_first: int) -> Choices:
            at, floor = contenders(plain.rank_values, plain.token_ids, noise, n_first)
            ids = plain.token_ids[at]
            values: F64 = plain.rank_values[at] + noise.gumbel(ids)
            whole = None if at.size == plain.token_ids.size else partial(with_noise, plain.token_ids.size)
            return Choices(row, ids, plain.logprobs[at], values, floor, whole)

        return with_noise(n)

    return choices_of
