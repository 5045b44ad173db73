"""Epsilon sampling: candidates of a probability of at least epsilon stay.

(Hewitt et al. 2022, arXiv 2210.15191)
"""

from __future__ import annotations

import math
from typing import Final

from unspool.logits.cut import Cut, at_least
from unspool.types import F64, Ids, Row


class Epsilon(Cut):
    """p < epsilon goes, equality stays, and so does the top always."""

    name: Final = "epsilon"

    def keep(self, z: F64, ids: Ids, row: Row) -> Ids:
        return at_least(math.log(row.params.epsilon_cutoff), z, row)
