"""Diverse beam search: groups of beams, each kept from the words of those before it.

(Vijayakumar et al. 2018, arXiv 1610.02424, with the Hamming term.) At each step group g ranks its
continuations with lambda taken off for every time that an earlier group has chosen the token at this step.
What was taken off stays in the rank of a hypothesis, as in the paper; its score is the plain one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from unspool.errors import BadRequest
from unspool.params import DecodingParams
from unspool.search.base import Advance
from unspool.search.beam import MOST_BEAMS
from unspool.search.hypotheses import Hypothesis, best_first, grow, pick
from unspool.search.length_norm import Kind, LengthNorm
from unspool.search.ranking import Choices, Continuation, in_order
from unspool.search.settings import (
    EarlyStopping,
    check_early_stopping,
    check_number,
    check_whole,
    refuse_drawing,
)
from unspool.search.stopping import is_over
from unspool.types import Answer, Chosen, Complete, Drop, Move, Processed, Row


@dataclass(frozen=True, slots=True)
class Group:
    """The hypotheses of one group, the best first."""

    live: tuple[Hypothesis, ...]
    ended: tuple[Hypothesis, ...] = ()


@dataclass(frozen=True, slots=True)
class DiverseState:
    groups: tuple[Group, ...]
    n_born: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DiverseBeam:
    """G groups of `width / groups` beams. With strength 0 every group finds the same.

    width, n_best, length_norm, alpha, early_stopping   as in Beam
    groups          into how many parts the width is divided; it must be a divisor of it
    strength        lambda, what a token loses for each earlier group that has just chosen it. [0, 100]
    """

    width: int = 4
    groups: int = 2
    strength: float = 0.5
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
        check_whole("groups", self.groups, self.width, "1 is plain beam search")
        if self.width % self.groups:
            raise BadRequest(
                f"groups must divide the width, got width={self.width} and groups={self.groups}; "
                f"take a width of {self.width - self.width % self.groups + self.groups}",
                code="bad_groups",
            )
        check_number("strength", self.strength, 0, 100, "0 makes all groups equal")
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
        refuse_drawing(params, "a diverse beam search")

    def start(self) -> DiverseState:
        return DiverseState(groups=(Group(live=(Hypothesis(0),)),) * self.groups)

    def standing(self, state: DiverseState) -> tuple[tuple[int, float], ...]:
        ended = best_first([h for group in state.groups for h in group.ended])
        live = best_first([h for group in state.groups for h in group.live])
        distinct = {h.branch: h for h in [*ended, *live]}  # at first every group has the same branch
        return tuple((h.branch, h.score) for h in [*distinct.values()][: self.n_best])

    def advance(
        self, state: DiverseState, rows: Sequence[Row], processed: Sequence[Processed]
    ) -> Advance[DiverseState]:
        said = dict(zip((row.branch for row in rows), zip(rows, processed, strict=True), strict=True))
        rule = _GroupRule(self.width // self.groups, self.alpha, self.early_stopping)
        norm = LengthNorm(self.length_norm, self.alpha)
        n_tokens = rows[0].position - rows[0].n_prompt + 1
        taken: Counter[int] = Counter()  # tokens that earlier groups have chosen at this step
        moves: list[Move] = []
        chosen: list[list[Continuation]] = []
        pools: list[tuple[Hypothesis, ...]] = []
        n_born = state.n_born
        for group in state.groups:
            choices = [self._choices(h, *said[h.branch], taken) for h in group.live]
            ending, going_on = pick(in_order(choices, 2 * rule.width), rule.width)
            logprob_of = {h.branch: h.logprob for h in group.live}
            pool = list(group.ended)
            for c in ending if not (self.early_stopping is True and len(pool) == rule.width) else ():
                total = logprob_of[c.row.branch] + c.logprob
                moves.append(Complete(c.row.branch, n_born, Chosen(c.token_id)))
                pool.append(Hypothesis(n_born, total, score=total / norm(n_tokens)))
                n_born += 1
            pool = best_first(pool)
            moves += [Drop(h.branch) for h in pool[rule.width :]]
            pools.append(tuple(pool[: rule.width]))
            values = sorted((logprob_of[c.row.branch] + c.logprob for c in going_on), reverse=True)
            if is_over(rule, pools[-1], values, n_tokens, rows[0].n_new_max, norm):
                going_on = []
            chosen.append(going_on)
            taken.update(c.token_id for c in going_on)

        parents = {h.branch: h for group in state.groups for h in group.live}
        live, growing = grow(rows, [c for group in chosen for c in group], parents, n_born)
        moves += growing
        n_born += len(live)
        groups, at = [], 0
        for pool_of, continuing in zip(pools, chosen, strict=True):
            groups.append(Group(tuple(live[at : at + len(continuing)]), pool_of))
            at += len(continuing)
        if not live:
            answers = best_first([h for group in groups for h in group.ended])
            moves += [Drop(h.branch) for h in answers[self.n_best :]]
            moves += [Answer(h.branch, h.score) for h in answers[: self.n_best]]
        return Advance(DiverseState(tuple(groups), n_born), tuple(moves))

    def _choices(
        self, hypothesis: Hypothesis, row: Row, processed: Processed, taken: Counter[int]
    ) -> Choices:
        choices = Choices.of(row, processed, hypothesis.rank_value)
        if not taken or self.strength == 0:
            return choices
        ids, counts = np.array(sorted(taken)), np.array([taken[token_id] for token_id in sorted(taken)])
        found = np.isin(ids, choices.token_ids)
        at = np.searchsorted(choices.token_ids, ids[found])
        values = choices.rank_values.copy()
        values[at] -= self.strength * counts[found]
        return replace(choices, rank_values=values)


@dataclass(frozen=True, slots=True)
class _GroupRule:
    """What decides when one group is over."""

    width: int
    alpha: float
    early_stopping: EarlyStopping
