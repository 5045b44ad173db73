"""Log-probabilities of one position: the model's own beside those that the choice was made by.

Both are computed in float64 from the row alone, so they do not depend on who shared the step. The first are
over the whole vocabulary, before any stage. The second are over the survivors of the last stage; at
temperature 0 that is after masks, penalties and bias, because nothing else runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from unspool.logits.cut import first
from unspool.types import F32, F64, Candidates, Ids, Spell, TokenLogprob, TokenLogprobs


def choice_logprobs(z: F32, candidates: Candidates, token_id: int, k: int, spell: Spell) -> TokenLogprobs:
    """What the model's logits z (V,) and the survivors say about the token that was chosen."""
    raw: F64 = z.astype(np.float64)
    raw_of, final_of = log_softmax(raw), log_softmax(candidates.logits)

    def entry(i: int) -> TokenLogprob:
        at = int(np.searchsorted(candidates.token_ids, i))
        survives = at < candidates.token_ids.size and candidates.token_ids[at] == i
        return TokenLogprob(i, *spell(i), raw_of(i), final_of(at) if survives else -math.inf)

    final_ids = candidates.token_ids[likeliest(candidates.logits, k)]
    return TokenLogprobs(
        token=entry(token_id),
        rank=_rank(raw, token_id),
        top=tuple(map(entry, likeliest(raw, k).tolist())),
        top_final=tuple(map(entry, final_ids.tolist())),
    )


def prompt_logprobs(z: F32, token_id: int, k: int, spell: Spell) -> TokenLogprobs:
    """What the model's logits z (V,) say about the token that the prompt goes on with."""
    raw: F64 = z.astype(np.float64)
    raw_of = log_softmax(raw)

    def entry(i: int) -> TokenLogprob:
        return TokenLogprob(i, *spell(i), raw_of(i), None)

    top = tuple(map(entry, likeliest(raw, k).tolist()))
    return TokenLogprobs(entry(token_id), _rank(raw, token_id), top, ())


def log_softmax(z: F64) -> Callable[[int], float]:
    """The log-probability of each index of z (n,), (z - max) - ln sum e^(z - max); NaN where max is none.

    The largest goes first: beside a logit of 1e38 the logarithm of a sum would be lost.
    """
    largest = float(z.max())
    if not math.isfinite(largest):
        return lambda i: math.nan
    log_sum = math.log(float(np.exp(z - largest).sum()))
    return lambda i: (float(z[i]) - largest) - log_sum


def likeliest(z: F64, k: int) -> Ids:
    """Indices of the k largest of z (n,), largest first, the lower of equals first."""
    indices = first(z, k) if k else np.empty(0, dtype=np.intp)
    return indices[np.argsort(-z[indices], kind="stable")]


def _rank(z: F64, token_id: int) -> int:
    """1 for the largest; tokens with the same logit have the same rank."""
    return 1 + int(np.count_nonzero(z > z[token_id]))
