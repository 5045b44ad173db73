"""What a stage of the pipeline is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from unspool.params import DecodingParams
from unspool.types import Row

Logits: TypeAlias = npt.NDArray[np.floating[Any]]  # float32 or float64; a stage returns what it was given


class Named(Protocol):
    """What does something to logits, as traces name it."""

    @property
    def name(self) -> str: ...


class Stage(Protocol):
    """One transformation of logits. Pure: no state, and what it is given is never written to.

    Four rules, held by tests/contract/test_stage_contract.py:
    a row's result depends on that row alone, bit for bit; -inf stays -inf, and no NaN is born;
    at least one candidate of every row survives (masks apart); permuting the vocabulary, and whatever names
    token ids, permutes the result (but for the last bits, where a sum goes over the vocabulary).

    Whatever type a row has, masses, entropies and temperatures are worked out in float64, and a stage returns
    the row's own type. A stage that learns from the chosen token is an `observer.Observer` too.
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
