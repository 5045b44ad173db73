"""Eta sampling: epsilon's threshold, lowered where the entropy is high.

(Hewitt et al. 2022, arXiv 2210.15191)
"""

from __future__ import annotations

import math
from typing import Final

from unspool.logits.cut import Cut, at_least
from unspool.logits.distribution import entropy
from unspool.types import F64, Ids, Row


class Eta(Cut):
    """p < min(epsilon, sqrt(epsilon) e^-H) goes, equality stays, and so does the top always."""

    name: Final = "eta"

    def keep(self, z: F64, ids: Ids, row: Row) -> Ids:
        ln_epsilon = math.log(row.params.eta_cutoff)
        return at_least(min(ln_epsilon, ln_epsilon / 2 - entropy(z)), z, row)
