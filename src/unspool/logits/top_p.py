"""Top-p, or nucleus sampling: the likeliest candidates whose mass reaches p stay.

(Holtzman et al. 2020, arXiv 1904.09751)
"""

from __future__ import annotations

from typing import Final

import numpy as np

from unspool.logits.cut import SLACK, Cut, first
from unspool.logits.distribution import probs
from unspool.types import F64, Ids, Row


class TopP(Cut):
    """In order, one stays while the mass before it is below p: the candidate that crosses p stays, and so
    does one at least."""

    name: Final = "top_p"

    def keep(self, z: F64, ids: Ids, row: Row) -> Ids:
        mass = np.cumsum(np.sort(probs(z))[::-1])
        return first(z, 1 + int(np.searchsorted(mass, row.params.top_p - SLACK, side="left")))
