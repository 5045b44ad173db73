"""Stochastic beam search: k texts drawn without replacement. (Kool et al. 2019, arXiv 1903.06059)

Every text has its log-probability perturbed by Gumbel noise, and the k largest are a sample without
replacement. The perturbed values are found from the top down: the largest among the continuations of a
hypothesis is the hypothesis' own, and the others follow given that.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final

import numpy as np

from unspool.light_dataclass import dataclass
from unspool.params import DecodingParams
from unspool.rng import Noise
from unspool.search.base import Advance
from unspool.search.beam_settings import MOST_BEAMS
from unspool.search.hypotheses import Hypothesis, grow
from unspool.search.perturbing import contenders
from unspool.search.ranking import Choices, Continuation, in_order
from unspool.search.settings import check_whole
from unspool.search.telling import Became, key_of, tell
from unspool.search_tree import SearchStep
from unspool.types import F64, Answer, Chosen, Complete, Drop, Move, Processed, Row

NOISE: Final = "stochastic_beam"


@dataclass(frozen=True, slots=True)
class StochasticState:
    """Hypotheses by perturbed log-probability, the largest first; at most k of both kinds together."""

    live: tuple[Hypothesis, ...]
    ended: tuple[Hypothesis, ...] = ()
    n_born: int = 1


@dataclass(frozen=True, slots=True)
class StochasticBeam:
    """k different texts, drawn as if one after the other without putting any back. k = 1 is sampling.

    All parameters have their meaning: temperature and truncation make the distribution that is drawn from. An
    answer's score is its log-probability in it; answers come in the order in which they were drawn.
    """

    k: int = 4

    n_first: ClassVar[int] = 1
    forks_later: ClassVar[bool] = True
    wants_candidates: ClassVar[bool] = True
    n_candidates: ClassVar[int | None] = None
    draws: ClassVar[bool] = True
    is_ranked: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_whole("k", self.k, MOST_BEAMS, "1 is plain sampling")

    @property
    def n_answers(self) -> int:
        return self.k

    @property
    def max_branches(self) -> int:
        return self.k

    def check(self, params: DecodingParams) -> None:
        """Every parameter has a meaning here; at temperature 0 nothing is drawn, and the k likeliest stay."""

    def start(self) -> StochasticState:
        return StochasticState(live=(Hypothesis(0),))

    def standing(self, state: StochasticState) -> tuple[tuple[int, float], ...]:
        both = sorted([*state.ended, *state.live], key=lambda h: -h.rank_value)
        return tuple((h.branch, h.logprob) for h in both)

    def advance(
        self, state: StochasticState, rows: Sequence[Row], processed: Sequence[Processed]
    ) -> Advance[StochasticState]:
        parents = {h.branch: h for h in state.live}
        n_looked_at = self.k + 1  # one more than can be chosen, to see that there is no place left
        choices = [
            _perturbed(row, p, parents[row.branch], n_looked_at, is_first=row.position == row.n_prompt)
            for row, p in zip(rows, processed, strict=True)
        ]
        ended, chosen = list(state.ended), list[Continuation]()
        for continuation in in_order(choices, n_looked_at):
            # An ended text keeps its place until k continuations and ended ones stand before it.
            if len(chosen) + sum(h.rank_value >= continuation.rank_value for h in ended) >= self.k:
                break
            chosen.append(continuation)
        ended = sorted(ended, key=lambda h: -h.rank_value)[: self.k - len(chosen)]

        given_up = tuple(h.branch for h in state.ended if h not in ended)
        moves: list[Move] = [Drop(branch) for branch in given_up]
        n_born, going_on = state.n_born, list[Continuation]()
        became: Became = {}
        for c in chosen:
            if not c.row.ends_with(c.token_id):
                going_on.append(c)
                continue
            logprob = parents[c.row.branch].logprob + c.logprob
            moves.append(Complete(c.row.branch, n_born, Chosen(c.token_id)))
            ended.append(Hypothesis(n_born, logprob, c.rank_value, score=logprob))
            became[key_of(c)] = n_born, logprob
            n_born += 1
        ended.sort(key=lambda h: -h.rank_value)
        live, growing = grow(rows, going_on, parents, n_born)
        moves += growing
        told = None
        if rows[0].params.trace:
            became |= {key_of(c): (h.branch, None) for c, h in zip(going_on, live, strict=True)}
            considered = tell(0, self.k, parents, choices, became, {})
            n_tokens = rows[0].position - rows[0].n_prompt + 1
            told = SearchStep(n_tokens, tuple(considered), given_up)
        if not live:
            moves += [Answer(h.branch, h.score) for h in ended]
        return Advance(StochasticState(tuple(live), tuple(ended), n_born + len(live)), tuple(moves), told)


def _perturbed(
    row: Row, processed: Processed, parent: Hypothesis, n_first: int, *, is_first: bool
) -> Choices:
    """The tokens after a branch, ranked by perturbed log-probabilities whose largest is the branch's own; the
    n_first largest at least."""
    plain = Choices.of(row, processed, parent.logprob)
    if row.params.is_greedy:
        return plain
    noise = Noise(row.seed, row.branch, row.position, NOISE)
    at, floor = contenders(plain.rank_values, plain.token_ids, noise, n_first)
    ids, logprobs = plain.token_ids[at], plain.logprobs[at]
    values: F64 = plain.rank_values[at] + noise.gumbel(ids)
    whole = None
    if at.size < plain.token_ids.size:
        n_all = plain.token_ids.size
        whole = partial(_perturbed, row, processed, parent, n_all, is_first=is_first)
    if not is_first:  # the prompt's own perturbed value is whatever the largest of these is
        floor = float(_conditioned(np.array([floor]), values.max(), parent.rank_value)[0])
        values = conditioned(values, parent.rank_value)
    return Choices(row, ids, logprobs, values, floor, whole)


def conditioned(free: F64, largest: float) -> F64:
    """Gumbel values (n,) given that their largest is `largest`: -ln(e^-largest - e^-max + e^-free), in a form
    that neither overflows nor cancels (appendix B.3 of the paper)."""
    result = _conditioned(free, free.max(), largest)
    result[free.argmax()] = largest  # v is -inf there, and so it is to the last bit
    return result


def _conditioned(free: F64, free_largest: float, largest: float) -> F64:
    with np.errstate(divide="ignore"):
        v = largest - free + np.log1p(-np.exp(free - free_largest))
    result: F64 = largest - np.maximum(v, 0) - np.log1p(np.exp(-np.abs(v)))
    return result
