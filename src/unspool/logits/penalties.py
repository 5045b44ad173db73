"""Penalties on tokens that have occurred: repetition, frequency and presence.

What has occurred is worked out from the text anew; `history.counts` keeps the same numbers along the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from unspool.history.scope import Scope
from unspool.logits.stage import Logits
from unspool.param_conflicts import is_on
from unspool.params import DecodingParams
from unspool.types import Ids, Row


class _Penalty:
    """Off when its parameter is neutral; on at temperature 0 as at any other."""

    name: ClassVar[str]

    def is_active(self, params: DecodingParams) -> bool:
        return is_on(self.name, params)

    def penalised(self, z: Logits, counts: Ids, params: DecodingParams) -> Logits:
        """New logits (n,) of the tokens that occurred, from z (n,), -inf among them, and counts (n,)."""
        raise NotImplementedError

    def apply(self, logits: Logits, rows: Sequence[Row]) -> Logits:
        result: Logits = logits.copy()
        for z, row in zip(result, rows, strict=True):
            token_ids, counts = occurrences(row, self.name)
            z[token_ids] = self.penalised(z[token_ids], counts, row.params)
        return result


class Repetition(_Penalty):
    """z / theta where z > 0 and z * theta elsewhere, once for each distinct token. (Keskar et al. 2019,
    arXiv 1909.05858)

    The one stage that a constant added to all logits does not leave alone. A product that leaves the range
    of numbers is its end: penalised is not masked.
    """

    name: Final = "repetition"

    def penalised(self, z: Logits, counts: Ids, params: DecodingParams) -> Logits:
        theta, largest = params.repetition_penalty, float(np.finfo(z.dtype).max)
        wide = z.astype(np.float64)  # where the least theta is not 0
        with np.errstate(over="ignore"):
            scaled = np.where(z > 0, wide / theta, wide * theta).clip(-largest, largest)
        penalised: Logits = np.where(z > -np.inf, scaled, wide).astype(z.dtype)
        return penalised


class Frequency(_Penalty):
    """z - f * count, as OpenAI's API has it."""

    name: Final = "frequency"

    def penalised(self, z: Logits, counts: Ids, params: DecodingParams) -> Logits:
        return z - params.frequency_penalty * counts


class Presence(_Penalty):
    """z - s for every token that occurred, as OpenAI's API has it."""

    name: Final = "presence"

    def penalised(self, z: Logits, counts: Ids, params: DecodingParams) -> Logits:
        return z - params.presence_penalty


def occurrences(row: Row, penalty: str) -> tuple[Ids, Ids]:
    """Distinct token ids (n,), ascending, that a penalty counts, and how often each occurs (n,)."""
    params = row.params
    start, stop = Scope.of(penalty, params).span(row.n_prompt, len(row.token_ids))
    left_out_at = row.rules.template_positions if params.penalty_exclude_template else ()
    counted = [
        row.token_ids[position]
        for position in range(start, stop)
        if position not in left_out_at and row.token_ids[position] not in params.penalty_exclude_ids
    ]
    token_ids, counts = np.unique(np.array(counted, np.intp), return_counts=True)
    return token_ids, counts
