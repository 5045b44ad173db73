"""What the kinds of temperature share: a T for each row, by which its logits are divided."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from unspool.logits.distribution import survivors
from unspool.logits.stage import Logits
from unspool.param_conflicts import is_on
from unspool.params import DecodingParams
from unspool.types import F64, Row

_SMALLEST: Final = 5e-324  # the least positive float; dividing by it is the limit of T towards 0


class Scaling(ABC):
    """A stage that divides each row by a temperature. Off at temperature 0, where nothing is drawn."""

    name: ClassVar[str]

    def is_active(self, params: DecodingParams) -> bool:
        return not params.is_greedy and is_on(self.name, params)

    @abstractmethod
    def temperature_of(self, z: F64, params: DecodingParams) -> float:
        """T for the logits (n,) of the candidates still alive, all finite."""

    def apply(self, logits: Logits, rows: Sequence[Row]) -> Logits:
        result = np.empty_like(logits)
        for i, row in enumerate(rows):
            alive = logits[i, survivors(logits[i])].astype(np.float64)
            result[i] = divided(logits[i], self.temperature_of(alive, row.params))
        return result


def divided(z: Logits, temperature: float) -> Logits:
    """z / T for a row (V,), of its type; at T = 0 the limit, where only the largest logits stay.

    Where the largest quotient leaves the type, (z - z_max) / T is given instead, which is the same
    distribution: the largest logit becomes 0, and what overflows to -inf has probability 0 in any arithmetic.
    """
    wide = z.astype(np.float64)
    divisor = max(temperature, _SMALLEST)
    with np.errstate(over="ignore"):
        scaled: Logits = (wide / divisor).astype(z.dtype)
        if not np.isfinite(scaled.max()):
            scaled = ((wide - wide.max()) / divisor).astype(z.dtype)
    return scaled
