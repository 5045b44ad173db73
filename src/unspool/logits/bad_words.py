"""Bad words: the token that would finish one is masked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from unspool.logits.stage import Logits
from unspool.params import DecodingParams
from unspool.types import Row


class BadWords:
    """Of each spelling the last token, when the tokens before it have just been written.

    Where they were written does not matter: a bad word that the prompt begins is not finished either.
    """

    name: Final = "bad_words"

    def is_active(self, params: DecodingParams) -> bool:
        return bool(params.bad_words)

    def apply(self, logits: Logits, rows: Sequence[Row]) -> Logits:
        result: Logits = logits.copy()
        for z, row in zip(result, rows, strict=True):
            for *before, last in row.rules.bad_words:
                if not before or list(row.token_ids[-len(before) :]) == before:
                    z[last] = -np.inf
        return result
