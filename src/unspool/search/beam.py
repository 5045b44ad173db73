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
from unspool.search.hypotheses import Hypothesis, best_first, grow, pick
from unspool.search.length_norm import Kind, LengthNorm
from unspool.search.ranking import Choices, in_order
from unspool.search.settings import EarlyStopping, check_early_stopping, check_whole, refuse_drawing
from unspool.search.stopping import is_over
from unspool.types import Answer, Chosen, Complete, Drop, Move, Processed, Row

MOST_BEAMS = 256


@dataclass(frozen=True, slots=True)
class BeamState:
    """Where a beam search stands: hypotheses in order, the best first."""

    live: tuple[Hypothesis, ...]
    ended: tuple[Hypothesis, ...] = ()
    n_born: int = 1  # branches so far, which is the next one's number


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

    def check(self, params: DecodingParams) -> None:
        refuse_drawing(params, "a beam search")

    def start(self) -> BeamState:
        return BeamState(live=(Hypothesis(0),))

    def standing(self, state: BeamState) -> tuple[tuple[int, float], ...]:
        standing = [*state.ended, *state.live]
        return tuple((h.branch, h.score) for h in standing[: self.n_best])

    def advance(
        self, state: BeamState, rows: Sequence[Row], processed: Sequence[Processed]
    ) -> Advance[BeamState]:
        parents = {h.branch: h for h in state.live}
        choices = [
            Choices.of(row, p, parents[row.branch].logprob) for row, p in zip(rows, processed, strict=True)
        ]
        ending, going_on = pick(in_order(choices, 2 * self.width), self.width)
        n_tokens = rows[0].position - rows[0].n_prompt + 1
        norm = LengthNorm(self.length_norm, self.alpha)

        n_born = state.n_born
        born: list[tuple[Hypothesis, Move]] = []
        if not (self.early_stopping is True and len(state.ended) == self.width):
            for c in ending:
                total = parents[c.row.branch].logprob + c.logprob
                move = Complete(c.row.branch, n_born, Chosen(c.token_id))
                born.append((Hypothesis(n_born, total, score=total / norm(n_tokens)), move))
                n_born += 1
        pool = best_first([*state.ended, *(h for h, _ in born)])[: self.width]
        kept = {h.branch for h in pool}
        moves: list[Move] = [move for h, move in born if h.branch in kept]
        moves += [Drop(h.branch) for h in state.ended if h.branch not in kept]

        values = [c.rank_value for c in going_on]
        over = is_over(self, pool, values, n_tokens, rows[0].n_new_max, norm)
        live, growing = grow(rows, [] if over else going_on, parents, n_born)
        moves += growing
        n_born += len(live)
        if over:
            moves += [Drop(h.branch) for h in pool[self.n_best :]]
            moves += [Answer(h.branch, h.score) for h in pool[: self.n_best]]
        return Advance(BeamState(tuple(live), tuple(pool), n_born), tuple(moves))
