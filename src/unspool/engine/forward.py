"""The forward pass of a step: each model reads its strands."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from unspool.engine.plan import build_plan
from unspool.engine.share import Share
from unspool.engine.storage import Storage
from unspool.types import F32


def forward(shares: Sequence[Share], storage: Storage, n_vocab: int) -> F32:
    """Logits (W, n_vocab), the last `n_logits` rows of each share in turn.

    An output layer may be padded beyond the tokenizer's vocabulary; the logits of the padding are cut off.
    """
    if len(storage.runners) == 1 or all(share.model == 0 for share in shares):
        return storage.runner.forward(build_plan(shares))[:, :n_vocab]
    ends = [*accumulate(share.n_logits for share in shares)]
    logits = np.empty((ends[-1], n_vocab), dtype=np.float32)
    for model, runner in enumerate(storage.runners):
        own = [i for i, share in enumerate(shares) if share.model == model]
        if own:
            said = runner.forward(build_plan([shares[i] for i in own]))
            rows = [row for i in own for row in range(ends[i] - shares[i].n_logits, ends[i])]
            logits[rows] = said[:, :n_vocab]
    return logits
