"""Tail-free sampling: the candidates before the flat tail of the sorted probabilities stay.

(Phénix and Egan 2019, trentbrick.github.io/Tail-Free-Sampling; no paper)
"""

from __future__ import annotations

from typing import Final

import numpy as np

from unspool.logits.cut import SLACK, Cut, first
from unspool.logits.distribution import below_top
from unspool.types import F64, Ids, Row


class TailFree(Cut):
    """In order, the curve bends at a candidate by its absolute second difference, |p_before - 2 p + p_after|.

    The first stays; of the others one stays while the bends up to its own are at most the share z of all
    bends. So the last one goes: it has no bend, and all bends lie before it. Where nothing bends there is no
    tail, and all stay: up to two candidates, equal probabilities, or a straight line.
    """

    name: Final = "tfs"

    def keep(self, z: F64, ids: Ids, row: Row) -> Ids:
        ratios = np.exp(np.sort(below_top(z))[::-1])  # p / p_max, which bends by the same shares
        bent = np.cumsum(
            np.abs(np.diff(ratios, n=2))
        )  # (n - 2,), of the second candidate to the last but one
        if bent.size == 0 or bent[-1] <= SLACK:
            return np.arange(z.size)
        within = (row.params.tfs_z + SLACK) * float(bent[-1])
        return first(z, 1 + int(np.searchsorted(bent, within, side="right")))
