"""Temperature: logits are divided by T, which sharpens (T < 1) or flattens (T > 1) the distribution."""

from __future__ import annotations

from typing import Final

from unspool.logits.scaling import Scaling
from unspool.param_conflicts import is_on
from unspool.params import DecodingParams
from unspool.types import F64


class Temperature(Scaling):
    """z / T. Off at T = 1, and at T = 0, where `choose` takes the largest logit. EDT uses T as its T0."""

    name: Final = "temperature"

    def is_active(self, params: DecodingParams) -> bool:
        return super().is_active(params) and not is_on("edt", params)

    def temperature_of(self, z: F64, params: DecodingParams) -> float:
        return params.temperature
