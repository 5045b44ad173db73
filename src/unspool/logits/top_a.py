"""Top-a: candidates of a probability of at least a times the square of the largest stay.

(BlinkDL 2022, for RWKV; no paper)
"""

from __future__ import annotations

import math
from typing import Final

from unspool.logits.cut import Cut, at_least
from unspool.logits.distribution import log_probs
from unspool.types import F64, Ids, Row


class TopA(Cut):
    """p < a p_max^2 goes, equality stays. A sure model leaves few candidates, a wavering one many."""

    name: Final = "top_a"

    def keep(self, z: F64, ids: Ids, row: Row) -> Ids:
        ln_p_max = float(log_probs(z).max())
        return at_least(math.log(row.params.top_a) + 2 * ln_p_max, z, row)
