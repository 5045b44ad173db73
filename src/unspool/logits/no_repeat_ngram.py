"""No repeated n-gram: no run of n tokens is written twice. (Paulus et al. 2017, arXiv 1705.04304)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from unspool.logits.stage import Logits
from unspool.params import DecodingParams
from unspool.types import Row


class NoRepeatNgram:
    """Masks v when the last n - 1 tokens, and then v, stand anywhere in the prompt or the answer."""

    name: Final = "no_repeat_ngram"

    def is_active(self, params: DecodingParams) -> bool:
        return params.no_repeat_ngram_size > 0

    def apply(self, logits: Logits, rows: Sequence[Row]) -> Logits:
        result: Logits = logits.copy()
        for z, row in zip(result, rows, strict=True):
            n, token_ids = row.params.no_repeat_ngram_size, list(row.token_ids)
            context = token_ids[len(token_ids) - n + 1 :] if n <= len(token_ids) else None
            for start in range(len(token_ids) - n + 1):
                if token_ids[start : start + n - 1] == context:
                    z[token_ids[start + n - 1]] = -np.inf
        return result
