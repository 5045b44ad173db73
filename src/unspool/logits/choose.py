"""Choose one token of a row: the largest logit, or the largest logit plus Gumbel noise.

Gumbel-max (Gumbel 1954; Maddison, Tarlow and Minka 2014, arXiv 1411.0030): the argmax of z + g, with g
standard Gumbel for each candidate, is distributed as softmax(z). The noise is a function of (seed,
branch, position, token), so who else is in the batch, or was cut, changes nothing about a candidate's own.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from unspool.errors import NoCandidate
from unspool.logits.stage import Logits
from unspool.rng import GUMBEL_LEAST, GUMBEL_MOST, Noise
from unspool.types import Row

STAGE: Final = "choose"
_FEW: Final = 512  # candidates: up to here the plain rule is the faster one

_HIGH = GUMBEL_MOST.astype(np.float32)  # by coarse byte
_LOW = GUMBEL_LEAST.astype(np.float32)
_ROUNDING: Final = 1e-3  # far above float32's error on values that can decide


def choose(z: Logits, row: Row) -> int:
    """The token id that z (V,) gives for this row. Ties go to the lowest id; a masked id is never chosen."""
    best = first_of_largest(z, row)
    if row.params.is_greedy:
        return best
    alive = z > -np.inf
    n_alive = np.count_nonzero(alive)
    if n_alive == 1:
        return best
    noise = Noise(row.seed, row.branch, row.position, STAGE)
    with np.errstate(over="ignore"):
        below = z - z[best]  # beside a logit of 1e16 noise would be lost
    ids = np.flatnonzero(alive if n_alive <= _FEW else _contenders(below, noise))
    scores = below[ids] + noise.gumbel(ids)  # (n,) f64
    return int(ids[scores.argmax()])


def first_of_largest(z: Logits, row: Row) -> int:
    """The lowest id of those with the largest logit (V,); NoCandidate when that is no finite number."""
    best = int(z.argmax())  # a NaN counts as largest, so none stays hidden
    if not -np.inf < z[best] < np.inf:
        raise NoCandidate(
            f"no token can be chosen at position {row.position}: the largest logit is {z[best]}; "
            "the model's weights or the runner are at fault, check the file with another runner"
        )
    return best


def _contenders(below: Logits, noise: Noise) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which of the candidates, z - z_max (V,), may hold the largest z + g, from the coarse bytes alone.

    The winner's score is at least the best of z + low, so whoever's z + high is below that has lost.
    """
    coarse = noise.coarse(below.size)
    score_to_beat = (below + _LOW[coarse]).max() - np.float32(_ROUNDING)
    open_: np.ndarray[tuple[int], np.dtype[np.bool_]] = below + _HIGH[coarse] >= score_to_beat
    return open_
