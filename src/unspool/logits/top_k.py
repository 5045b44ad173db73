"""Top-k: exactly the k largest logits stay. (Fan et al. 2018, arXiv 1805.04833)"""

from __future__ import annotations

from typing import Final

import numpy as np

from unspool.logits.cut import Cut
from unspool.logits.stage import Logits
from unspool.types import Ids, Row


class TopK(Cut):
    """Of those equal to the k-th largest the lowest ids stay, so that it is k and not more."""

    name: Final = "top_k"

    def keep(self, z: Logits, ids: Ids, row: Row) -> Ids:
        return first(z, row.params.top_k)


def first(z: Logits, k: int) -> Ids:
    """Indices, ascending, of the first k of z (n,) in order; all of them when there are no more."""
    if k >= z.size:
        return np.arange(z.size)
    kth = np.partition(z, z.size - k)[z.size - k]
    kept = z > kth
    equal = np.flatnonzero(z == kth)  # of these the lowest ids fill up what is left of k
    kept[equal[: k - np.count_nonzero(kept)]] = True
    return np.flatnonzero(kept)
