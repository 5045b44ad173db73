"""What the truncation methods share: each names the candidates that stay, and the others become -inf.

Candidates are ordered by logit, largest first, and equal logits by token id; that order breaks every tie.
Probabilities are of the candidates still alive, so each method renormalises what the one before it left.

Thresholds have a slack of 1e-6, the resolution of float32 logits, so that what is exactly at one has reached
it. It holds for sums of probabilities and shares of a whole (.4 + .3 reaches a top_p of .7), and for the
logarithms of single probabilities (one equal to epsilon stays, be epsilon .1 or 1e-8).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from unspool.conventions import conventions_of
from unspool.logits.distribution import log_probs, survivors
from unspool.logits.stage import Logits
from unspool.param_conflicts import is_on
from unspool.params import DecodingParams
from unspool.types import F64, Ids, Row

SLACK: Final = 1e-6


class Cut(ABC):
    """A truncation stage. Off at temperature 0, where nothing is drawn."""

    name: ClassVar[str]

    def is_active(self, params: DecodingParams) -> bool:
        return not params.is_greedy and is_on(self.name, params)

    @abstractmethod
    def keep(self, z: F64, ids: Ids, row: Row) -> Ids:
        """Indices into z (n,), ascending, of the candidates that stay.

        z are the logits of the candidates still alive, all finite, in order of their token ids (n,).
        """

    def apply(self, logits: Logits, rows: Sequence[Row]) -> Logits:
        result = np.full_like(logits, -np.inf)
        for i, row in enumerate(rows):
            ids = survivors(logits[i])
            kept = ids[self.keep(logits[i, ids].astype(np.float64), ids, row)]
            result[i, kept] = logits[i, kept]
        return result


def first(z: F64, k: int) -> Ids:
    """Indices, ascending, of the first k of logits (n,) in order; all of them when there are no more."""
    if k >= z.size:
        return np.arange(z.size)
    kth = np.partition(z, z.size - k)[z.size - k]
    kept = z > kth
    equal = np.flatnonzero(z == kth)  # of these the lowest ids fill up what is left of k
    kept[equal[: k - np.count_nonzero(kept)]] = True
    return np.flatnonzero(kept)


def at_least(ln_p: float, z: F64, row: Row) -> Ids:
    """Indices, ascending, of logits (n,) whose log-probability is at least ln_p; the first in order always.

    Some presets keep all that equal the first too.
    """
    kept = log_probs(z) >= ln_p - SLACK
    if conventions_of(row.params).cutoffs_keep_tied_tops:
        kept |= z == z.max()
    kept[z.argmax()] = True
    return np.flatnonzero(kept)
