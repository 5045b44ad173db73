"""Intervals of means over problems, by resampling the problems (Efron 1979)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from unspool.errors import BadRequest
from unspool.search.pass_at_k import Interval

N_RESAMPLES: Final = 10_000
_CHUNK: Final = 1_000  # resamples at once


def bootstrap(
    values: Sequence[float], *, seed: int, confidence: float = 0.95, n_resamples: int = N_RESAMPLES
) -> Interval:
    """The mean of a value for each problem, and the middle `confidence` of the means of as many problems
    drawn from these with replacement.

    Problems are what is independent, not the answers to one: so each problem comes with its pass@k, or with
    the difference of two of its figures, which makes the interval that of a paired comparison.
    """
    if not values or not 0 < confidence < 1 or n_resamples < 1:
        raise BadRequest(
            f"a bootstrap needs values, a confidence in (0, 1) and resamples, got {len(values)} values, "
            f"confidence={confidence}, n_resamples={n_resamples}",
            code="bad_interval",
        )
    given = np.asarray(values, dtype=np.float64)  # (P,)
    draw = np.random.Generator(np.random.Philox(seed))
    means = np.concatenate(
        [
            given[draw.integers(0, given.size, (min(_CHUNK, n_resamples - start), given.size))].mean(axis=1)
            for start in range(0, n_resamples, _CHUNK)
        ]
    )  # (n_resamples,)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(math.fsum(values) / len(values), float(low), float(high), confidence)
