"""Diverse beam search: groups of beams, each kept from the words of those before it.

(Vijayakumar et al. 2018, arXiv 1610.02424, with the Hamming term.) At each step group g ranks its
continuations with lambda taken off for every time that an earlier group has chosen the token at this step.
What was taken off stays in the rank of a hypothesis, as in the paper; its score is the plain one.
"""

from __future__ import annotations

from collections.abc import Sequence

from unspool.errors import BadRequest
from unspool.light_dataclass import dataclass
from unspool.params import DecodingParams
from unspool.search.base import Advance
from unspool.search.beam_settings import BeamSettings
from unspool.search.groups import Group, Groups, advance, n_heads, untaken
from unspool.search.settings import check_number, check_whole, refuse_drawing
from unspool.types import Processed, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class DiverseBeam(BeamSettings):
    """G groups of `width / groups` beams. With strength 0 every group finds the same.

    width, n_best, length_norm, alpha, early_stopping   as in Beam
    groups          into how many parts the width is divided; it must be a divisor of it
    strength        lambda, what a token loses for each earlier group that has just chosen it. [0, 100]
    """

    groups: int = 2
    strength: float = 0.5

    def __post_init__(self) -> None:
        BeamSettings.__post_init__(self)
        check_whole("groups", self.groups, self.width, "1 is plain beam search")
        if self.width % self.groups:
            raise BadRequest(
                f"groups must divide the width, got width={self.width} and groups={self.groups}; "
                f"take a width of {self.width - self.width % self.groups + self.groups}",
                code="bad_groups",
            )
        check_number("strength", self.strength, 0, 100, "0 makes all groups equal")

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
        rule = self.rule(self.width // self.groups)
        return advance(rule, untaken(self.strength), self.n_best, state, rows, processed)
