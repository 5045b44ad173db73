"""Greedy decoding and sampling: one branch, one token a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from unspool.search.base import Chooser
from unspool.types import F32, Extend, Move, Row


@dataclass(frozen=True, slots=True)
class Sample:
    """Each branch grows by the token that `choose` picks."""

    choose: Chooser
    max_branches: ClassVar[int] = 1

    def advance(self, rows: Sequence[Row], logits: Sequence[F32]) -> tuple[Move, ...]:
        return tuple(Extend(row.branch, (self.choose(z, row),)) for row, z in zip(rows, logits, strict=True))
