"""Temperature: z / T."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from unspool.logits.stage import Logits
from unspool.param_conflicts import is_on
from unspool.params import DecodingParams
from unspool.types import Row

_SMALLEST: Final = 1e-6  # below this T, z / T is left to `_from_zero` without a try


class Temperature:
    """Sharpen (T < 1) or flatten (T > 1) the distribution.

    Off at T = 1, and at T = 0, where `choose` takes the largest logit. Where z / T leaves float32, z - max
    is divided instead, which is the same distribution: the largest logit becomes 0, and what overflows
    to -inf has probability 0 in any arithmetic.
    """

    name: Final = "temperature"

    def is_active(self, params: DecodingParams) -> bool:
        return params.temperature not in (0, 1) and not is_on("edt", params)

    def apply(self, logits: Logits, rows: Sequence[Row]) -> Logits:
        temperatures = [row.params.temperature for row in rows]
        divisors: Logits = np.array([[max(t, _SMALLEST)] for t in temperatures], dtype=logits.dtype)  # (R, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            scaled: Logits = np.divide(logits, divisors)
            for i, temperature in enumerate(temperatures):
                if temperature < _SMALLEST or not np.isfinite(scaled[i].max()):
                    scaled[i] = _from_zero(logits[i], temperature)
        return scaled


def _from_zero(z: Logits, temperature: float) -> Logits:
    """(z - max) / T for z (V,), in float64 so that a T below float32's least number is still one."""
    shifted: Logits = np.divide(z - z.max(), temperature, dtype=np.float64).astype(z.dtype)
    return shifted
