"""Top-p, or nucleus sampling: the likeliest candidates whose mass reaches p stay.

(Holtzman et al. 2020, arXiv 1904.09751)
"""

from __future__ import annotations

from typing import Final

import numpy as np

from unspool.logits.cut import SLACK, Cut, softmax
from unspool.logits.stage import Logits
from unspool.logits.top_k import first
from unspool.types import Ids, Row


class TopP(Cut):
    """One stays while the mass before it is below p: the candidate that crosses p stays, and so does one
    at least."""

    name: Final = "top_p"

    def keep(self, z: Logits, ids: Ids, row: Row) -> Ids:
        mass = np.cumsum(np.sort(softmax(z))[::-1], dtype=np.float64)
        return first(z, 1 + int(np.searchsorted(mass, row.params.top_p - SLACK, side="left")))
