"""Greedy decoding and sampling: one branch, one token a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from unspool.types import Extend, Move, Processed, Row


@dataclass(frozen=True, slots=True)
class Sample:
    """Each branch grows by the token that was chosen for it."""

    max_branches: ClassVar[int] = 1
    wants_candidates: ClassVar[bool] = False

    def advance(self, rows: Sequence[Row], processed: Sequence[Processed]) -> tuple[Move, ...]:
        return tuple(Extend(row.branch, (p.chosen,)) for row, p in zip(rows, processed, strict=True))
