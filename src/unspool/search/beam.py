"""Beam search: the B best hypotheses so far, step by step, and the best of those that have ended.

The score of a hypothesis is the sum of its tokens' log-probabilities over a length norm. For the settings
that both have, tokens and scores are those of transformers' beam search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from unspool.params import DecodingParams
from unspool.search.base import Advance
from unspool.search.groups import Group, Groups, advance, likeliest, n_heads
from unspool.search.length_norm import Kind, LengthNorm
from unspool.search.settings import EarlyStopping, check_early_stopping, check_whole, refuse_drawing
from unspool.search.stopping import Rule
from unspool.types import Processed, Row

MOST_BEAMS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Beam:
    """Beam search of a width.

    width           hypotheses that live at once. [1, 256]
    n_best          answers to give, the best first. [1, width]
    length_norm     "power" divides by L^alpha, "gnmt" by ((5 + L) / 6)^alpha, "none" by 1
    alpha           the exponent; above 0 it favours long answers, 0 is a plain sum
    early_stopping  True: stop when width hypotheses have ended. False: stop when the best live one, as
                    it stands, is below the worst of those. "never": the same with the longest length it may
                    reach, when alpha > 0. These three are transformers'. "exact": stop when no live
                    hypothesis can come to beat the worst of those, whatever follows
    """

    width: int = 4
    n_best: int = 1
    length_norm: Kind = "power"
    alpha: float = 1.0
    early_stopping: EarlyStopping = False

    n_first: ClassVar[int] = 1
    forks_later: ClassVar[bool] = True
    wants_candidates: ClassVar[bool] = True
    draws: ClassVar[bool] = False
    is_ranked: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_whole("width", self.width, MOST_BEAMS, "1 is greedy search")
        check_whole("n_best", self.n_best, self.width, "a wider beam has more answers")
        check_early_stopping(self.early_stopping)
        LengthNorm(self.length_norm, self.alpha)

    @property
    def n_answers(self) -> int:
        return self.n_best

    @property
    def max_branches(self) -> int:
        return self.width

    @property
    def n_candidates(self) -> int:
        return n_heads(self.width) + 1

    def check(self, params: DecodingParams) -> None:
        refuse_drawing(params, "a beam search")

    def start(self) -> Groups:
        return Groups((Group(),))

    def standing(self, state: Groups) -> tuple[tuple[int, float], ...]:
        return state.standing(self.n_best)

    def advance(self, state: Groups, rows: Sequence[Row], processed: Sequence[Processed]) -> Advance[Groups]:
        rule = Rule(self.width, LengthNorm(self.length_norm, self.alpha), self.early_stopping)
        return advance(rule, likeliest, self.n_best, state, rows, processed)
