"""Top-n-sigma: logits within n standard deviations of the largest stay.

(Tang et al. 2024, arXiv 2411.07641) Deviation: sigma is the population's, over the candidates still alive;
the authors' code has the sample's over the whole vocabulary, which is no number once one token is masked.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from unspool.logits.cut import SLACK, Cut
from unspool.logits.distribution import below_top
from unspool.types import F64, Ids, Row


class TopNSigma(Cut):
    """z >= z_max - n sigma. Distances and sigma scale together, so who stays does not depend on temperature.

    Equal logits have sigma 0 and all stay. Equality stays, so the top does.
    """

    name: Final = "top_n_sigma"

    def keep(self, z: F64, ids: Ids, row: Row) -> Ids:
        distance = -below_top(z)
        widest = float(distance.max())
        if widest == 0:
            return np.arange(z.size)
        distance /= widest  # in units of the widest, so that no square overflows or vanishes
        return np.flatnonzero(distance <= (row.params.top_n_sigma + SLACK) * float(distance.std()))
