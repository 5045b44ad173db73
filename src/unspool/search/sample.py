"""Greedy decoding and sampling: one token a step for each answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from unspool.types import Extend, Fork, Move, Processed, Row


@dataclass(frozen=True, slots=True)
class Sample:
    """Each of n answers grows by the token that was chosen for it, from noise of its own."""

    n: int = 1
    forks_later: ClassVar[bool] = False
    wants_candidates: ClassVar[bool] = False

    @property
    def n_first(self) -> int:
        return self.n

    @property
    def max_branches(self) -> int:
        return self.n

    def advance(self, rows: Sequence[Row], processed: Sequence[Processed]) -> tuple[Move, ...]:
        is_first = rows[0].position == rows[0].n_prompt
        forks = [Fork(0, row.branch) for row in rows if is_first and row.branch != 0]
        return (*forks, *(Extend(r.branch, (p.chosen,)) for r, p in zip(rows, processed, strict=True)))
