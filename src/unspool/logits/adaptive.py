"""Adaptive-p: candidates near a target probability are preferred, and the target corrects itself.

(MrJackSpade 2025; in llama.cpp; no paper)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from unspool.logits.distribution import log_prob_of, probs, survivors
from unspool.logits.observer import value_in_force
from unspool.logits.stage import Logits
from unspool.param_conflicts import is_on
from unspool.params import DecodingParams
from unspool.types import Row

_PEAK: Final = 5.0  # the logit of a candidate right on the target
_SHARPNESS: Final = 10.0
_WIDTH: Final = 0.3  # of the distance from the target at which the logit has fallen by half the sharpness


class Adaptive:
    """z' = 5 - 10 d^2 / (1 + d), with d = |p - target*| / 0.3 and target* = 2 target - average in [0, 1].

    The average of the chosen tokens' probabilities, before this stage, starts at the target; a text that
    was too likely is answered by a lower target. All survivors stay, and one of probability 0 gets a logit
    like any other far from the target, so it wants a truncation (min-p, say) before it.
    """

    name: Final = "adaptive"

    def is_active(self, params: DecodingParams) -> bool:
        return not params.is_greedy and is_on(self.name, params)

    def apply(self, logits: Logits, rows: Sequence[Row]) -> Logits:
        result = np.full_like(logits, -np.inf)
        for i, row in enumerate(rows):
            ids = survivors(logits[i])
            d = np.abs(probs(logits[i, ids]) - target_now(row)) / _WIDTH
            result[i, ids] = _PEAK - _SHARPNESS * d**2 / (1 + d)
        return result

    def observe(self, before: Logits, after: Logits, row: Row, token_id: int) -> float:
        return math.exp(log_prob_of(token_id, before))


def target_now(row: Row) -> float:
    """The target corrected by how far the text's average is off, in [0, 1]."""
    target = row.params.adaptive_target
    assert target is not None, "it is active"
    return min(max(2 * target - value_in_force(row), 0.0), 1.0)
