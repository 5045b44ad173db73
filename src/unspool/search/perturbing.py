"""The largest of values with Gumbel noise, without the noise of those who cannot be among them."""

from __future__ import annotations

from typing import Final

import numpy as np

from unspool.rng import GUMBEL_LEAST, GUMBEL_MOST, Noise
from unspool.types import F64, Ids

_FEW: Final = 512  # up to here all noise is the faster way
_ROUNDING: Final = 1e-9  # far above float64's error


def contenders(values: F64, token_ids: Ids, noise: Noise, n: int) -> tuple[Ids, float]:
    """Indices (m,), ascending, of who may be among the n largest of values (V,) plus noise, and what nobody
    else reaches: n of them are above it.

    A coarse byte bounds a noise from both sides; whoever at best is below the n-th best of the worst is out.
    """
    if values.size <= max(n, _FEW):
        return np.arange(values.size), -np.inf
    coarse = noise.coarse(int(token_ids[-1]) + 1)[token_ids]
    at_least = values + GUMBEL_LEAST[coarse]
    floor = float(np.partition(at_least, values.size - n)[values.size - n]) - _ROUNDING
    return np.flatnonzero(values + GUMBEL_MOST[coarse] >= floor), floor
