"""Top-k: the k largest logits stay. (Fan et al. 2018, arXiv 1805.04833)"""

from __future__ import annotations

from typing import Final

import numpy as np

from unspool.conventions import conventions_of
from unspool.logits.cut import Cut, first
from unspool.types import F64, Ids, Row


class TopK(Cut):
    """Exactly k: of those equal to the k-th largest the lowest ids stay. Some presets keep them all."""

    name: Final = "top_k"

    def keep(self, z: F64, ids: Ids, row: Row) -> Ids:
        k = row.params.top_k
        if conventions_of(row.params).top_k_keeps_ties and k < z.size:
            return np.flatnonzero(z >= np.partition(z, z.size - k)[z.size - k])
        return first(z, k)
