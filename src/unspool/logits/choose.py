"""Choose one token of a row: the largest logit, or the largest logit plus Gumbel noise.

Gumbel-max (Gumbel 1954; Maddison, Tarlow and Minka 2014, arXiv 1411.0030): the argmax of z + g, with g
standard Gumbel for each candidate, is distributed as softmax(z). The noise is a function of (seed,
branch, position, token), so who else is in the batch, or was cut, changes nothing about a candidate's own.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from unspool.errors import UnspoolError
from unspool.logits.truncation import Ids, survivors
from unspool.rng import F64, LEAST_UPPER_TAIL, Noise, gumbel_of
from unspool.types import F32, Row

STAGE: Final = "choose"
_FEW: Final = 2048  # candidates: up to here the plain rule is as fast
_WIDE: Final = 6.0  # logits below the best that the first look takes in


class NoCandidate(UnspoolError):
    """A row has no token that could be chosen: every logit is masked, or some are not numbers."""

    code = "no_candidate"


def choose(z: F32, row: Row) -> int:
    """The token id that z (V,) gives for this row. Ties go to the lowest id; a masked id is never chosen."""
    best = int(z.argmax())  # the first of equals; a NaN counts as largest, so none stays hidden
    if not -np.inf < z[best] < np.inf:
        raise NoCandidate(
            f"no token can be chosen at position {row.position}: the largest logit is {z[best]}; "
            "the model's weights or the runner are at fault, check the file with another runner"
        )
    if row.params.is_greedy:
        return best
    ids, alive = survivors(z)
    if ids.size == 1:
        return best
    noise = Noise(row.seed, row.branch, row.position, STAGE)
    if ids.size <= _FEW:
        scores = alive + noise.gumbel(ids)  # (n,) f64
        return int(ids[scores.argmax()])
    return _choose_of_many(ids, alive, noise, z[best])


def _choose_of_many(ids: Ids, z: F32, noise: Noise, largest: np.float32) -> int:
    """The same token as the plain rule, without a logarithm for candidates that cannot win.

    Once some candidate has the score s, another needs z + g > s, that is -ln u < exp(z - s). As
    -ln u >= 1 - u, it needs 1 - u < exp(z - s): one comparison. And 1 - u is at least 2**-33, so
    where exp(z - s) is smaller not even the draw is needed.
    """
    below = z - largest  # (n,) f32, small where it matters: rounding stays far under the 1.0001 below
    wide = below >= -_WIDE
    best_id, best_score = _best(ids[wide], z[wide] + noise.gumbel(ids[wide]))
    reach = np.exp(below - np.float32(best_score - float(largest))) * np.float32(1.0001)  # exp(z - s)
    open_ = np.flatnonzero((reach > LEAST_UPPER_TAIL) & ~wide)
    if open_.size:
        tail = noise.upper_tail(ids[open_])
        able = tail < reach[open_]
        rest = open_[able]
        if rest.size:
            other_id, other_score = _best(ids[rest], z[rest] + gumbel_of(tail[able]))
            if other_score > best_score or (other_score == best_score and other_id < best_id):
                return other_id
    return best_id


def _best(ids: Ids, scores: F64) -> tuple[int, float]:
    i = int(scores.argmax())
    return int(ids[i]), float(scores[i])
