"""Classifier-free guidance: away from what a model would say without the prompt, or with a negative one.

(Sanchez et al. 2023, arXiv 2306.17806.) Two strands read different prompts and get the same answer; the
logits of one are moved along their difference from the other's.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from unspool.light_dataclass import dataclass
from unspool.logits.distribution import log_probs
from unspool.logits.stage import Logits
from unspool.types import Row


@dataclass(frozen=True, slots=True)
class Guidance:
    """The companion reads the negative prompt."""

    scale: float
    name: ClassVar[str] = "guidance"

    def combine(self, own: Logits, other: Logits, row: Row) -> Logits:
        return guide(own, other, self.scale)


def guide(conditional: Logits, unconditional: Logits, scale: float) -> Logits:
    """Logits (V,): u + scale * (c - u), c and u being the log-probabilities of the two strands (V,).

    At scale 1 they are the conditional strand's own, to the last bit; 0 is the other's distribution. What
    either strand masks stays masked, and has no part in the other's probabilities.
    """
    if scale == 1:
        return conditional
    if (
        conditional.min() > -np.inf and unconditional.min() > -np.inf
    ):  # as models have it: nothing to sort out
        return _moved(conditional, unconditional, scale)
    is_open = (conditional > -np.inf) & (unconditional > -np.inf)
    result = np.full_like(conditional, -np.inf)
    if is_open.any():
        result[is_open] = _moved(conditional[is_open], unconditional[is_open], scale)
    return result


def _moved(conditional: Logits, unconditional: Logits, scale: float) -> Logits:
    c, u = log_probs(conditional), log_probs(unconditional)
    c -= u
    c *= scale
    c += u
    return c
