"""Min-p: candidates with at least a share m of the largest probability stay.

(Nguyen et al. 2024, arXiv 2407.01082)
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from unspool.logits.cut import SLACK, Cut
from unspool.logits.distribution import below_top
from unspool.types import F64, Ids, Row


class MinP(Cut):
    """p >= m p_max is z - z_max >= ln m, so nothing is exponentiated. Equality stays, so the top does."""

    name: Final = "min_p"

    def keep(self, z: F64, ids: Ids, row: Row) -> Ids:
        return np.flatnonzero(below_top(z) >= math.log(row.params.min_p) - SLACK)
