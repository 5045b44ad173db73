"""What the truncation methods share: each names the candidates that stay, and the others become -inf.

Candidates are ordered by logit, largest first, and equal logits by token id; that order breaks every tie.
Masses are compared with a slack of 1e-6, the resolution of float32 logits: .4 + .3 reaches a top_p of .7.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from unspool.logits.stage import Logits
from unspool.param_conflicts import is_on
from unspool.params import DecodingParams
from unspool.types import Ids, Row

SLACK: Final = 1e-6


class Cut(ABC):
    """A truncation stage. Off at temperature 0, where nothing is drawn."""

    name: ClassVar[str]

    def is_active(self, params: DecodingParams) -> bool:
        return not params.is_greedy and is_on(self.name, params)

    @abstractmethod
    def keep(self, z: Logits, ids: Ids, row: Row) -> Ids:
        """Indices into z (n,), ascending, of the candidates that stay.

        z are the logits of the candidates still alive, all finite, in order of their token ids (n,).
        """

    def apply(self, logits: Logits, rows: Sequence[Row]) -> Logits:
        result = np.full_like(logits, -np.inf)
        for i, row in enumerate(rows):
            ids = np.flatnonzero(logits[i] > -np.inf)
            kept = ids[self.keep(logits[i, ids], ids, row)]
            result[i, kept] = logits[i, kept]
        return result


def softmax(z: Logits) -> Logits:
    """Probabilities (n,) of logits (n,)."""
    weights = np.exp(z - z.max())
    probs: Logits = weights / weights.sum()
    return probs
