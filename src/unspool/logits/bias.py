"""Logit bias: what the user adds to the logits of some tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from unspool.logits.stage import Logits
from unspool.params import DecodingParams
from unspool.types import Row


class Bias:
    """z + bias, finite and within 100 of 0. A bias of False is a ban, and token_masks has that."""

    name: Final = "bias"

    def is_active(self, params: DecodingParams) -> bool:
        return any(bias is not False for _, bias in params.biases)

    def apply(self, logits: Logits, rows: Sequence[Row]) -> Logits:
        result: Logits = logits.copy()
        for z, row in zip(result, rows, strict=True):
            for token_id, bias in row.rules.bias:
                z[token_id] += bias
        return result
