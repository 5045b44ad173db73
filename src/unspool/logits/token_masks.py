"""Token ids that alone are allowed, and token ids that are banned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from unspool.logits.stage import Logits
from unspool.params import DecodingParams
from unspool.types import Row


class AllowedTokens:
    """Everything that `allowed_token_ids` does not name is masked, ends of the text too."""

    name: Final = "allowed_tokens"

    def is_active(self, params: DecodingParams) -> bool:
        return params.allowed_token_ids is not None

    def apply(self, logits: Logits, rows: Sequence[Row]) -> Logits:
        result = np.full_like(logits, -np.inf)
        for i, row in enumerate(rows):
            allowed = list(row.params.allowed_token_ids or ())
            result[i, allowed] = logits[i, allowed]
        return result


class BannedTokens:
    """`banned_token_ids`, and what `logit_bias` gives False: masked, not just made unlikely."""

    name: Final = "banned_tokens"

    def is_active(self, params: DecodingParams) -> bool:
        return bool(params.banned_token_ids) or any(bias is False for _, bias in params.biases)

    def apply(self, logits: Logits, rows: Sequence[Row]) -> Logits:
        result: Logits = logits.copy()
        for z, row in zip(result, rows, strict=True):
            z[list(row.rules.banned_ids)] = -np.inf
        return result
