"""Truncation: top-k, then top-p, then min-p. What is cut becomes -inf.

A method is a function from the logits of the candidates still alive, in order of token id, to how
low a logit may be and how many candidates stay. Candidates are ordered by logit, largest first, and
equal logits by token id; that order breaks every tie. No method sorts the vocabulary: each first
finds a bound below which nothing can stay, and sorts what is above it.

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

Ids = npt.NDArray[np.intp]
Kept = npt.NDArray[np.bool_]


def top_k(z: F32, k: int) -> Kept:
    """Keep exactly the first k of z (n,) in order. (Fan et al. 2018, arXiv 1805.04833)"""
    if k >= z.size:
        return np.ones(z.size, dtype=np.bool_)
    bound = _bound_of_kth(z, k)
    above = z[z >= bound]  # at least k of them, usually few more
    kth = float(np.partition(above, above.size - k)[above.size - k])
    return _first(z, k, kth)


def top_p(z: F32, p: float) -> Kept:
    """Keep the fewest of z (n,), in order, whose mass reaches p.

    (Holtzman et al. 2020, arXiv 1904.09751) One stays while the mass before it is below p: the candidate
    that crosses p stays, and so does one at least.
    """
    weights = np.exp(z - z.max())  # (n,) f32, the largest is 1
    total = float(weights.sum(dtype=np.float64))
    # Candidates of mass <= (1 - p) / n hold at most 1 - p together, so the others already reach p.
    bound = np.float32(max((1.0 - p) / z.size * total * (1.0 - SLACK), 0.0))
    mass = np.sort(weights[weights >= bound])[::-1].astype(np.float64) / total  # largest first
    before_next = np.cumsum(mass)
    n_kept = 1 + int(np.searchsorted(before_next, p - SLACK, side="left"))
    return top_k(z, min(n_kept, mass.size))


def min_p(z: F32, m: float) -> Kept:
    """Keep candidates of z (n,) whose probability is at least m times the largest; equality stays.

    (Nguyen et al. 2024, arXiv 2407.01082) p >= m * p_max is z >= z_max + ln m, so nothing is exponentiated.
    """
    cut: Kept = z >= np.float32(float(z.max()) + math.log(m) - SLACK)
    return cut


def _bound_of_kth(z: F32, k: int) -> float:
    """A value that at least k of z reach: the k-th largest of the maxima of disjoint blocks."""
    size = z.size // (4 * k)
    if size < 8:
        return -np.inf
    size = min(size, 256)
    n_blocks = z.size // size
    maxima = z[: n_blocks * size].reshape(n_blocks, size).max(axis=1)
    return float(np.partition(maxima, n_blocks - k)[n_blocks - k])


def _first(z: F32, k: int, kth: float) -> Kept:
    """The first k of z (n,) in order, where `kth` is the k-th largest value: of equals, the lowest ids."""
    kept = z > kth
    equal = np.flatnonzero(z == kth)
    kept[equal[: k - int(np.count_nonzero(kept))]] = True
    return kept


@dataclass(frozen=True, slots=True)
class Method:
    """A truncation method: the parameter that sets it, the value that turns it off, and the rule."""

    name: str
    neutral: float
    rule: Callable[[F32, float], Kept]


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
            ids, z = survivors(logits[i])
            for method in METHODS:
                value = getattr(row.params, method.name)
                if value != method.neutral and z.size > 1:
                    kept = method.rule(z, value)
                    ids, z = ids[kept], z[kept]
            result[i, ids] = z
        return result


def survivors(z: F32) -> tuple[Ids, F32]:
    """Ids (n,), ascending, and logits (n,) of the candidates of z (V,) that are not masked."""
    ids = np.flatnonzero(z > -np.inf)
    return ids, (z if ids.size == z.size else z[ids])
