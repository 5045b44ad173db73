"""Minimum length: nothing that ends the text is chosen before so many tokens of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from unspool.logits.stage import Logits
from unspool.params import DecodingParams
from unspool.types import Row


class MinTokens:
    """Masks every end of the text, and yields where the masks before it leave nothing else.

    A grammar that is complete, or allowed ids that all end the text, are worth more than a length: the text
    ends early then. Stop strings are looked for after min_tokens only, which is the stop matcher's part.
    """

    name: Final = "min_tokens"

    def is_active(self, params: DecodingParams) -> bool:
        return params.min_tokens > 0

    def apply(self, logits: Logits, rows: Sequence[Row]) -> Logits:
        result: Logits = logits.copy()
        for i, row in enumerate(rows):
            if row.position - row.n_prompt < row.params.min_tokens:
                result[i, list(row.rules.end_ids)] = -np.inf
                if not (result[i] > -np.inf).any():
                    result[i] = logits[i]
        return result
