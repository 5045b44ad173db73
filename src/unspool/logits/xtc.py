"""XTC, exclude top choices: sometimes all likely candidates but the least likely of them go.

(p-e-w 2024, text-generation-webui; no paper)
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from unspool.conventions import conventions_of
from unspool.logits.cut import SLACK, Cut
from unspool.logits.distribution import in_order, log_probs
from unspool.rng import Noise
from unspool.types import F64, Ids, Row

_DIE: Final = np.zeros(1, dtype=np.intp)  # a die is one number for the row, not one for each token: token 0's


class Xtc(Cut):
    """With probability pi, the candidates of p >= t go, except the least likely of them, the last in order.

    It takes two of them. An end of the text and a newline count as one of them but never go, so XTC neither
    lengthens answers nor runs paragraphs together; a preset may let them go. The die is a function of seed,
    branch and position, so a row's neighbours, and what was cut before, do not touch it.
    """

    name: Final = "xtc"

    def keep(self, z: F64, ids: Ids, row: Row) -> Ids:
        everyone = np.arange(z.size)
        die = Noise(row.seed, row.branch, row.position, self.name).uniform(_DIE)[0]
        if die >= row.params.xtc_probability:
            return everyone
        threshold = row.params.xtc_threshold
        reach = (
            log_probs(z) >= math.log(threshold) - SLACK if threshold > 0 else np.ones(z.size, dtype=np.bool_)
        )
        order = in_order(z)
        top_choices = order[: np.count_nonzero(reach)]
        excluded = np.zeros(z.size, dtype=np.bool_)
        excluded[top_choices[:-1]] = True
        if conventions_of(row.params).xtc_spares_ends:
            spared = row.rules.end_ids | row.rules.newline_ids
            excluded &= ~np.isin(ids, list(spared))
        return everyone[~excluded]
