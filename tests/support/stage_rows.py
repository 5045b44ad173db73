"""One row of logits through the stages, for tests of single methods."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unspool.logits.orders import stages_for
from unspool.params import DecodingParams
from unspool.rules import NO_RULES
from unspool.types import Row


def row(*, seed=1, branch=0, position=3, rules=NO_RULES, history=None, **params):
    """A row whose request has these parameters; its text is of no interest."""
    return Row(DecodingParams(**params), seed, branch, range(position), position, rules, history)


def wanting(rows):
    """The same rows, with all their survivors looked at."""
    return [replace(row, wants_candidates=True) for row in rows]


def through(logits, asking):
    """Logits (V,) float64 after every stage that the row asks for."""
    z = np.asarray(logits, dtype=np.float64)
    for stage in stages_for(asking.params):
        z = stage.apply(z[None], [asking])[0]
    return z


def probs(z):
    """Probabilities (V,) of logits (V,)."""
    e = np.exp(np.asarray(z, dtype=np.float64) - np.max(z))
    return e / e.sum()


def probs_after(p, **params):
    """What the stages make of probabilities (V,), which come in as their logarithms."""
    return probs(through(np.log(p), row(**params)))


def kept_ids(z):
    return np.flatnonzero(np.asarray(z) > -np.inf).tolist()


def kept_after(logits, **params):
    """Ids that survive the stages."""
    return kept_ids(through(logits, row(**params)))


def in_order(z):
    """Ids by logit, largest first, then by id; the slow way."""
    return sorted(range(len(z)), key=lambda i: (-z[i], i))
