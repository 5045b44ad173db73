"""What becomes of a row when somebody reads beside it: before the pipeline, and after the forward pass.

A rule takes the logits of a row and those of one companion, and gives the logits that the pipeline then gets
as if the model had said them. Rules follow one another, each on what the one before it made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from unspool.logits.pipeline import Passed
from unspool.logits.stage import Logits
from unspool.types import F32, Row


class Combination(Protocol):
    """A rule for two rows. Pure, and of these two rows alone."""

    @property
    def name(self) -> str:
        """What it is called in traces."""
        ...

    def combine(self, own: Logits, other: Logits, row: Row) -> Logits:
        """Logits (V,) float64 of the branch's own and its companion's, (V,) float64 without a NaN or +inf."""
        ...


def combined(
    own: F32, others: Sequence[F32], rules: Sequence[Combination], row: Row
) -> tuple[F32, tuple[Passed, ...]]:
    """Logits (V,) after every rule, and for who traces what each of them did.

    Rules work in float64, and what comes out is rounded to the float32 that a model's own logits are. A row
    that holds what is no logit is given back, for the pipeline to refuse.
    """
    z: F32 = own
    passed: list[Passed] = []
    for rule, other in zip(rules, others, strict=True):
        for each in (z, other):
            if not each.max() < np.inf:  # a NaN is largest
                return each, ()
        before = z.astype(np.float64)
        z = rule.combine(before, other.astype(np.float64), row).astype(np.float32)
        if row.params.trace:
            passed.append(Passed(rule, before, z.astype(np.float64)))
    return z, tuple(passed)
