"""The distribution that logits stand for: probabilities, their logarithms, entropy, order; all in float64.

Everything is worked out from z - z_max, so a constant added to all logits drops out. Sums over candidates
are plain float64 sums (NumPy's, pairwise, in order of token id); running sums go one by one from the first
in order. Another way of summing differs in the last bits, which no threshold with a slack can see.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from unspool.logits.stage import Logits
from unspool.types import F64, Ids

_DEEPEST: Final = -1e300  # a difference of logits beyond it is put here: probability 0 all the same, no inf


def below_top(z: Logits) -> F64:
    """z - z_max (n,), finite, of finite logits (n,)."""
    wide = z.astype(np.float64)
    with np.errstate(over="ignore"):
        below: F64 = np.maximum(wide - wide.max(), _DEEPEST)
    return below


def probs(z: Logits) -> F64:
    """Probabilities (n,) of finite logits (n,)."""
    weights = np.exp(below_top(z))
    result: F64 = weights / weights.sum()
    return result


def log_probs(z: Logits) -> F64:
    """Natural logarithms (n,) of the probabilities of finite logits (n,); finite too."""
    below = below_top(z)
    return below - math.log1p(_weights_beside_top(below).sum())


def entropy(z: Logits) -> float:
    """Entropy in nats of finite logits (n,).

    H = ln W - sum(w d) / W, with d = z - z_max, w = e^d, W = sum(w). That is -sum(p ln p), with one logarithm
    for all; neither part is ever negative, so nothing cancels. The top's weight of 1 is added last, so that
    the least entropy has all its digits.
    """
    below = below_top(z)
    weights = _weights_beside_top(below)
    others = float(weights.sum())
    return math.log1p(others) - float((weights * below).sum()) / (1 + others)


def _weights_beside_top(below: F64) -> F64:
    """e^(z - z_max) (n,), and 0 in place of the first largest, whose weight is 1."""
    weights = np.exp(below)
    weights[below.argmax()] = 0
    return weights


def in_order(z: Logits) -> Ids:
    """Indices (n,) of logits (n,) by logit, largest first, and equal logits by token id."""
    return np.argsort(-z, kind="stable")


def survivors(z: Logits) -> Ids:
    """Token ids, ascending, of the candidates still alive in a row (V,)."""
    return np.flatnonzero(z > -np.inf)


def log_prob_of(token_id: int, z: Logits) -> float:
    """The natural logarithm of a token's probability among the survivors of a row (V,)."""
    ids = survivors(z)
    return float(log_probs(z[ids])[np.searchsorted(ids, token_id)])
