"""Diverse beam search: groups of beams, each kept from the words of those before it.

(Vijayakumar et al. 2018, arXiv 1610.02424, with the Hamming term.) At each step group g ranks its
continuations with lambda taken off for every time that an earlier group has chosen the token at this step.
What was taken off stays in the rank of a hypothesis, as in the paper; its score is the plain one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from unspool.errors import BadRequest
from unspool.params import DecodingParams
from unspool.search.base import Advance
from unspool.search.beam import MOST_BEAMS
from unspool.search.groups import Group, Groups, advance, n_heads, untaken
from unspool.search.length_norm import Kind, LengthNorm
from unspool.search.settings import (
    EarlyStopping,
    check_early_stopping,
    check_number,
    check_whole,
    refuse_drawing,
)
from unspool.search.stopping import Rule
from unspool.types import Processed, Row


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

    @property
    def n_candidates(self) -> int:
        return n_heads(self.width // self.groups) + self.width + 1  # earlier groups may have taken so many

    def check(self, params: DecodingParams) -> None:
        refuse_drawing(params, "a diverse beam search")

    def start(self) -> Groups:
        return Groups((Group(),) * self.groups)

    def standing(self, state: Groups) -> tuple[tuple[int, float], ...]:
        return state.standing(self.n_best)

    def advance(self, state: Groups, rows: Sequence[Row], processed: Sequence[Processed]) -> Advance[Groups]:
        norm = LengthNorm(self.length_norm, self.alpha)
        rule = Rule(self.width // self.groups, norm, self.early_stopping)
        return advance(rule, untaken(self.strength), self.n_best, state, rows, processed)
