"""Classifier-free guidance: away from what a model would say without the prompt, or with a negative one.

(Sanchez et al. 2023, arXiv 2306.17806.) Two streams read different prompts and write the same text; the
logits of one are moved along their difference from the other's. This is the rule; a request that has two
streams comes with the searches of a second model.
"""

from __future__ import annotations

import numpy as np

from unspool.logits.distribution import log_probs
from unspool.logits.stage import Logits


def guide(conditional: Logits, unconditional: Logits, scale: float) -> Logits:
    """Logits (V,): u + scale * (c - u), c and u being the log-probabilities of the two streams (V,).

    At scale 1 they are the conditional stream's own, to the last bit; 0 is the other's distribution. What
    either stream masks stays masked, and has no part in the other's probabilities.
    """
    if scale == 1:
        return conditional
    is_open = (conditional > -np.inf) & (unconditional > -np.inf)
    result = np.full_like(conditional, -np.inf)
    if is_open.any():
        c, u = log_probs(conditional[is_open]), log_probs(unconditional[is_open])
        result[is_open] = u + scale * (c - u)
    return result
