"""Quadratic smoothing: logits bent by the square, and the cube, of their distance from the largest.

(kalomaze 2024, text-generation-webui; no paper)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from unspool.logits.distribution import below_top, survivors
from unspool.logits.stage import Logits
from unspool.param_conflicts import is_on
from unspool.params import DecodingParams
from unspool.types import Row


class Smoothing:
    """z' = z_max - k f d^2 + s f d^3, with d = z - z_max, k = (3 - c) / 2, s = (c - 1) / 2.

    f is the factor and c the curve. Candidates near the largest logit move closer to it, distant ones move
    away, and the order stays. Computed as z_max + f d^2 (s d - k), where no inf meets a 0; what falls out of
    the type is -inf, of probability 0 in any arithmetic.
    """

    name: Final = "smoothing"

    def is_active(self, params: DecodingParams) -> bool:
        return not params.is_greedy and is_on(self.name, params)

    def apply(self, logits: Logits, rows: Sequence[Row]) -> Logits:
        result = np.full_like(logits, -np.inf)
        for i, row in enumerate(rows):
            factor, curve = row.params.smoothing_factor, row.params.smoothing_curve
            k, s = (3 - curve) / 2, (curve - 1) / 2
            ids = survivors(logits[i])
            d = below_top(logits[i, ids])
            with np.errstate(over="ignore"):
                result[i, ids] = float(logits[i].max()) + factor * d**2 * (s * d - k)
        return result
