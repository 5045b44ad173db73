"""Beam search: the B best hypotheses so far, step by step, and the best of those that have ended.

(Lowerre 1976, the Harpy system; length norms after Wu et al. 2016, arXiv 1609.08144.) The score of a
hypothesis is the sum of its tokens' log-probabilities over a length norm. For the settings
that both have, tokens and scores are those of transformers' beam search.
"""

from __future__ import annotations

from collections.abc import Sequence

from unspool.light_dataclass import dataclass
from unspool.params import DecodingParams
from unspool.search.base import Advance
from unspool.search.beam_settings import BeamSettings
from unspool.search.groups import Group, Groups, advance, likeliest, n_heads
from unspool.search.settings import refuse_drawing
from unspool.types import Processed, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Beam(BeamSettings):
    """Beam search of a width.

    width           hypotheses that live at once. [1, 256]
    n_best          answers to give, the best first. [1, width]
    length_norm     "power" divides by L^alpha, "gnmt" by ((5 + L) / 6)^alpha, "none" by 1
    alpha           the exponent; above 0 it favours long answers, 0 is a plain sum. "none" has none
    early_stopping  True: stop when width hypotheses have ended. False: stop when the best live one, as
                    it stands, is below the worst of those. "never": the same with the longest length it may
                    reach, when alpha > 0. These three are transformers'. "exact": stop when no live
                    hypothesis can come to beat the worst of those, whatever follows
    """

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
        return advance(self.rule(self.width), likeliest, self.n_best, state, rows, processed)
