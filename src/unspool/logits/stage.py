"""What a stage of the pipeline is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from unspool.params import DecodingParams
from unspool.types import F32, Row


class Stage(Protocol):
    """One transformation of logits. Pure: no state, and what it is given is never written to.

    Four rules, held by tests/contract/test_stage_contract.py:
    a row's result depends on that row alone, bit for bit; -inf stays -inf, and no NaN is born;
    at least one candidate of every row survives; permuting the vocabulary permutes the result.
    """

    @property
    def name(self) -> str:
        """What the stage is called in params, traces and errors."""
        ...

    def is_active(self, params: DecodingParams) -> bool:
        """Whether these parameters ask for anything. An inactive stage is not run: a bit-exact no-op."""
        ...

    def apply(self, logits: F32, rows: Sequence[Row]) -> F32:
        """Return new logits (R, V) for logits (R, V), given rows that all ask for this stage."""
        ...
