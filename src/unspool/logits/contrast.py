"""Contrastive decoding: what an expert finds likelier than an amateur does.

(Li et al. 2022, arXiv 2210.15097, in the form of O'Brien and Lewis 2023, arXiv 2309.09117.) A small model
knows the habits of language and little else; taking its share off the logits of a large one leaves what the
large one knows. Where the large one is sure, the small one has no say: tokens that the expert finds
implausible are out.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from unspool.light_dataclass import dataclass
from unspool.logits.distribution import log_probs
from unspool.logits.masks import MASKS
from unspool.logits.stage import Logits
from unspool.types import Row


@dataclass(frozen=True, slots=True)
class Contrast:
    """The companion is read by the amateur."""

    alpha: float
    beta: float
    name: ClassVar[str] = "contrast"

    def combine(self, own: Logits, other: Logits, row: Row) -> Logits:
        return contrast(own, other, self.alpha, self.beta, _allowed(own, row))


def contrast(
    expert: Logits, amateur: Logits, alpha: float, beta: float, allowed: Logits | None = None
) -> Logits:
    """Logits (V,): (1 + beta) * e - beta * a where e >= ln alpha + max e, else -inf; e and a being the
    log-probabilities of the two models (V,).

    `allowed` is `expert` after the masks of the request, where it has any: the largest e is sought among what
    they leave, so that some plausible token is always one that may be chosen. At beta 0 and alpha 0 the
    distribution is the expert's.
    """
    if expert.min() > -np.inf and amateur.min() > -np.inf:  # as models have it: nothing to sort out
        return _contrasted(expert, amateur, alpha, beta, allowed)
    is_open = (expert > -np.inf) & (amateur > -np.inf)
    result = np.full_like(expert, -np.inf)
    if not is_open.any():
        return result
    left = None if allowed is None else allowed[is_open]
    result[is_open] = _contrasted(expert[is_open], amateur[is_open], alpha, beta, left)
    return result


def _contrasted(expert: Logits, amateur: Logits, alpha: float, beta: float, allowed: Logits | None) -> Logits:
    e, a = log_probs(expert), log_probs(amateur)
    score: Logits = (1 + beta) * e - beta * a
    if alpha > 0:
        may_be_chosen = e if allowed is None else e[allowed > -np.inf]
        if may_be_chosen.size:
            score[e < math.log(alpha) + may_be_chosen.max()] = -np.inf
    return score


def _allowed(z: Logits, row: Row) -> Logits | None:
    """Logits (V,) after the request's masks; None where it has none, or where they leave nothing."""
    masks = [mask for mask in MASKS if mask.is_active(row.params)]
    for mask in masks:
        z = mask.apply(z[None], [row])[0]
    return z if masks else None
