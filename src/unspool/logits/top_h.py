"""Top-h: the likeliest candidates that together hold a share h of the entropy stay.

(Baghaei Potraghloo et al. 2025, arXiv 2509.02510) Deviation: what a prefix holds is its part of the sum
-p ln p over all candidates, as in transformers; the paper bounds the entropy of the renormalised prefix.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from unspool.conventions import conventions_of
from unspool.logits.cut import SLACK, Cut, first
from unspool.logits.distribution import log_probs
from unspool.types import F64, Ids, Row


class TopH(Cut):
    """In order, one stays while the running sum of -p ln p, itself included, is at most h H. The top always.

    When the top has all the probability there is no entropy to share, and it alone stays.
    Some presets look at the first so many candidates as if there were no others.
    """

    name: Final = "top_h"

    def keep(self, z: F64, ids: Ids, row: Row) -> Ids:
        considered = conventions_of(row.params).top_h_candidates or z.size
        ln_p = log_probs(np.sort(z)[::-1][:considered])
        held = np.cumsum(-ln_p * np.exp(ln_p))  # (n,), rising to H
        allowed = (row.params.top_h + SLACK) * float(held[-1])
        n_kept = int(np.searchsorted(held, allowed, side="right")) if allowed > 0 else 0
        return first(z, max(n_kept, 1))
