"""Locally typical sampling: the candidates whose surprise is closest to the entropy stay.

(Meister et al. 2022, arXiv 2202.00666)
"""

from __future__ import annotations

from typing import Final

import numpy as np

from unspool.conventions import conventions_of
from unspool.logits.cut import SLACK, Cut
from unspool.logits.distribution import entropy, in_order, log_probs
from unspool.types import F64, Ids, Row


class Typical(Cut):
    """Sorted by |-ln p - H|, smallest first, the fewest whose mass reaches tau; the likeliest may go.

    Distances are compared in steps of the slack, and equal ones are in order: with .25 .25 and four times
    .125 all six are equally far, and the two likeliest come first whatever the last bits say.
    Some presets keep all that are as far as the last, and some want the mass above tau.
    """

    name: Final = "typical"

    def keep(self, z: F64, ids: Ids, row: Row) -> Ids:
        conventions = conventions_of(row.params)
        tau, passes = row.params.typical_p, conventions.typical_passes_mass
        order = in_order(z)
        surprise = -log_probs(z)[order]
        distance = np.rint(np.abs(surprise - entropy(z)) / SLACK)  # (n,) in steps of the slack
        nearest = np.argsort(distance, kind="stable")
        mass = np.cumsum(np.exp(-surprise[nearest]))
        short = mass <= tau + SLACK if passes else mass < tau - SLACK  # of those up to here
        n_kept = min(1 + np.count_nonzero(short), z.size)
        if conventions.typical_keeps_ties:
            farthest = distance[nearest[n_kept - 1]]
            n_kept = int(np.searchsorted(distance[nearest], farthest, side="right"))
        return np.sort(order[nearest[:n_kept]])
