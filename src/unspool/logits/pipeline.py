"""The stages in order, and how a step's logits pass through them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from unspool.logits.stage import Stage
from unspool.logits.temperature import Temperature
from unspool.logits.truncation import Truncation
from unspool.types import F32, Row

# Temperature comes first because top-p and min-p are meant about the distribution one draws from:
# logits 3 2 1 with T = 0.5 and top_p = 0.8 leave one candidate in this order and two in the other.
PIPELINE: Final[tuple[Stage, ...]] = (Temperature(), Truncation())


def apply(logits: F32, rows: Sequence[Row], pipeline: Sequence[Stage] = PIPELINE) -> list[F32]:
    """Pass logits (R, V) through the stages each row asks for; return R arrays (V,), -inf where cut.

    Rows that ask for the same stages go through them together. Rows that ask for none come back as
    views of `logits`, uncopied.
    """
    groups: dict[tuple[Stage, ...], list[int]] = {}
    for i, row in enumerate(rows):
        stages = tuple(stage for stage in pipeline if stage.is_active(row.params))
        groups.setdefault(stages, []).append(i)
    processed: list[F32] = list(logits)
    for stages, members in groups.items():
        if not stages:
            continue
        together = logits if len(members) == len(rows) else logits[np.array(members)]
        asking = [rows[i] for i in members]
        for stage in stages:
            together = stage.apply(together, asking)
        for i, result in zip(members, together, strict=True):
            processed[i] = result
    return processed
