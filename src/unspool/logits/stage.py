"""What a stage of the pipeline is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from unspool.params import DecodingParams
from unspool.types import Row

Logits: TypeAlias = npt.NDArray[np.floating[Any]]  # float32 or float64; a stage returns what it was given


class Stage(Protocol):
    """One transformation of logits. Pure: no state, and what it is given is never written to.

    Four rules, held by tests/contract/test_stage_contract.py:
    a row's result depends on that row alone, bit for bit; -inf stays -inf, and no NaN is born;
    at least one candidate of every row survives (masks apart); permuting the vocabulary permutes the result.
    """

    @property
    def name(self) -> str:
        """What the stage is called in orders, traces and errors."""
        ...

    def is_active(self, params: DecodingParams) -> bool:
        """Whether these parameters ask for anything. An inactive stage is not run: a bit-exact no-op."""
        ...

    def apply(self, logits: Logits, rows: Sequence[Row]) -> Logits:
        """Return new logits (R, V) for logits (R, V), given rows that all ask for this stage."""
        ...
