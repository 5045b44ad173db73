"""Greedy decoding and sampling: one token a step for each answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from unspool.light_dataclass import dataclass
from unspool.params import DecodingParams
from unspool.search.base import Advance
from unspool.types import Extend, Fork, Processed, Row


@dataclass(frozen=True, slots=True)
class Sample:
    """Each of n answers grows by the token that was chosen for it, from noise of its own."""

    n: int = 1
    first: int = 0  # the number of its first branch
    forks_later: ClassVar[bool] = False
    wants_candidates: ClassVar[bool] = False
    n_candidates: ClassVar[int | None] = None
    draws: ClassVar[bool] = True
    is_ranked: ClassVar[bool] = False

    @property
    def n_first(self) -> int:
        return self.n

    @property
    def n_answers(self) -> int:
        return self.n

    @property
    def max_branches(self) -> int:
        return self.n

    def check(self, params: DecodingParams) -> None:
        """Every parameter has a meaning here."""

    def start(self) -> None:
        return None

    def standing(self, state: None) -> tuple[tuple[int, float], ...]:
        return ()

    def advance(self, state: None, rows: Sequence[Row], processed: Sequence[Processed]) -> Advance[None]:
        is_first = rows[0].position == rows[0].n_prompt
        forks = [Fork(self.first, row.branch) for row in rows if is_first and row.branch != self.first]
        grown = [Extend(row.branch, (p.chosen,)) for row, p in zip(rows, processed, strict=True)]
        return Advance(None, (*forks, *grown))
