"""Truncation: top-k, then top-p, then min-p. What is cut becomes -inf.

A method is a function from the logits of the candidates still alive to the indices of those that stay,
ascending. Candidates are ordered by logit, largest first, and equal logits by token id; that order breaks
every tie. No method sorts the vocabulary: each first finds a bound below which nothing can stay, and
looks closely only at what is above it.

Masses are compared with a slack of 1e-6, the resolution of float32 logits: .4 + .3 reaches a top_p of .7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from unspool.params import DecodingParams
from unspool.types import F32, Row

SLACK: Final = 1e-6
_HEAD: Final = 1024  # candidates that nearly always hold the mass p: top-p looks at them first

Ids = npt.NDArray[np.intp]


def top_k(z: F32, k: int) -> Ids:
    """Keep exactly the first k of z (n,) in order. (Fan et al. 2018, arXiv 1805.04833)"""
    if k >= z.size:
        return np.arange(z.size)
    able = np.flatnonzero(z >= _bound_of_kth(z, k))  # at least k of them, usually few more
    values = z[able]
    kth = np.partition(values, able.size - k)[able.size - k]
    kept = values > kth
    equal = np.flatnonzero(values == kth)  # of these the lowest ids fill up what is left of k
    kept[equal[: k - np.count_nonzero(kept)]] = True
    chosen: Ids = able[kept]
    return chosen


def top_p(z: F32, p: float) -> Ids:
    """Keep the fewest of z (n,), in order, whose mass reaches p.

    (Holtzman et al. 2020, arXiv 1904.09751) One stays while the mass before it is below p: the candidate
    that crosses p stays, and so does one at least.
    """
    weights = np.exp(z - z.max())  # (n,) f32, the largest is 1
    total = float(weights.sum(dtype=np.float64))
    if z.size > 8 * _HEAD:
        able = top_k(z, _HEAD)
        n_kept = _n_reaching(p, weights[able], total)
        if n_kept <= _HEAD:
            return able[top_k(z[able], n_kept)]
    # Candidates of mass <= (1 - p) / n hold at most 1 - p together, so the others already reach p.
    able = np.flatnonzero(weights >= (1.0 - p) / z.size * total * (1.0 - SLACK))
    return able[top_k(z[able], _n_reaching(p, weights[able], total))]


def _n_reaching(p: float, weights: F32, total: float) -> int:
    """How many of the largest weights (n,) it takes to reach the mass p; n + 1 if all of them do not."""
    before_next = np.cumsum(np.sort(weights)[::-1].astype(np.float64) / total)
    return 1 + int(np.searchsorted(before_next, p - SLACK, side="left"))


def min_p(z: F32, m: float) -> Ids:
    """Keep candidates of z (n,) whose probability is at least m times the largest; equality stays.

    (Nguyen et al. 2024, arXiv 2407.01082) p >= m * p_max is z >= z_max + ln m, so nothing is exponentiated.
    """
    return np.flatnonzero(z >= float(z.max()) + math.log(m) - SLACK)


def _bound_of_kth(z: F32, k: int) -> float:
    """A value that at least k of z reach: the k-th largest of the maxima of disjoint blocks."""
    size = min(z.size // (4 * k), 256)
    if size < 8:
        return -np.inf
    n_blocks = z.size // size
    maxima = z[: n_blocks * size].reshape(size, n_blocks).max(axis=0)  # strided blocks reduce fastest
    return float(np.partition(maxima, n_blocks - k)[n_blocks - k])


@dataclass(frozen=True, slots=True)
class Method:
    """A truncation method: the parameter that sets it, the value that turns it off, and the rule."""

    name: str
    neutral: float
    rule: Callable[[F32, float], Ids]


# In this order each method narrows what the next one sees, and masses are renormalised in between.
METHODS: Final[tuple[Method, ...]] = (
    Method("top_k", 0, lambda z, k: top_k(z, int(k))),
    Method("top_p", 1, top_p),
    Method("min_p", 0, min_p),
)


class Truncation:
    """Cut the unlikely candidates of each row, by the methods its parameters ask for."""

    name: Final = "truncation"

    def is_active(self, params: DecodingParams) -> bool:
        return not params.is_greedy and any(getattr(params, m.name) != m.neutral for m in METHODS)

    def apply(self, logits: F32, rows: Sequence[Row]) -> F32:
        result = np.full_like(logits, -np.inf)
        for i, row in enumerate(rows):
            ids, z = None, logits[i]
            if z.min() == -np.inf:
                ids = np.flatnonzero(z > -np.inf)
                z = z[ids]
            for method in METHODS:
                value = getattr(row.params, method.name)
                if value != method.neutral:
                    kept = method.rule(z, value)
                    ids, z = kept if ids is None else ids[kept], z[kept]
            result[i, ids] = z
        return result
