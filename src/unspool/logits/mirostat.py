"""Mirostat: truncation that steers the text's surprise towards tau bits a token.

(Basu et al. 2020, arXiv 2007.14966)
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from unspool.conventions import conventions_of
from unspool.logits.cut import SLACK, Cut, first
from unspool.logits.distribution import below_top, log_prob_of, log_probs
from unspool.logits.observer import value_in_force
from unspool.logits.stage import Logits
from unspool.types import F64, Ids, Row

_N_ZIPF: Final = 100  # candidates from which version 1 estimates the exponent


class Mirostat(Cut):
    """mu starts at 2 tau, and a chosen token of surprise S changes it by -eta (S - tau). Replaces truncation.

    Version 2: candidates of a surprise -log2 p above mu go; equality stays, and so does the top always.
    Version 1: the first k in order stay, where k is how many of a Zipf distribution have the average
    surprise mu; see `zipf_k`.
    S is in bits, from the probabilities before this cut; a preset may take those after it.
    """

    name: Final = "mirostat"

    def keep(self, z: F64, ids: Ids, row: Row) -> Ids:
        mu = value_in_force(row)
        if row.params.mirostat == 1:
            return first(z, zipf_k(z, mu))
        kept = log_probs(z) / -math.log(2) <= mu + SLACK
        kept[z.argmax()] = True
        return np.flatnonzero(kept)

    def observe(self, before: Logits, after: Logits, row: Row, token_id: int) -> float:
        z = after if conventions_of(row.params).mirostat_surprise_after_cut else before
        return -log_prob_of(token_id, z) / math.log(2)


def zipf_k(z: F64, mu: float) -> int:
    """k = ((s - 1) 2^mu / (1 - n^(1 - s)))^(1 / s) for logits (n,), rounded down, from 1 to n.

    s is the Zipf exponent of the first hundred in order: sum(t b) / sum(t^2) over neighbours i = 0, 1, ...,
    t = ln((i + 2) / (i + 1)), b = ln(p_i / p_(i+1)). At s = 1 the quotient is its limit 1 / ln n. All in
    logarithms, where neither a steep curve nor a flat one (s = 0) overflows.
    Deviation: the paper does not say how to round; the authors' code rounds to the nearest and adds 1.
    """
    n = z.size
    if n == 1:
        return 1
    b = -np.diff(np.sort(below_top(z))[::-1][:_N_ZIPF])
    i = np.arange(b.size)
    t = np.log((i + 2) / (i + 1))
    s = float((t * b).sum() / (t * t).sum())
    excess = s - 1
    quotient = excess / -math.expm1(-excess * math.log(n)) if excess != 0 else 1 / math.log(n)
    power = math.log(quotient) + mu * math.log(2)  # k = e^(power / s)
    if power >= s * math.log(n):
        return n
    if power <= 0:
        return 1
    return max(1, math.floor(math.exp(power / s) * (1 + SLACK)))
