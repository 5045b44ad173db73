"""Dynamic temperature: T between two bounds, by the share of the largest possible entropy. (kalomaze 2023)"""

from __future__ import annotations

import math
from typing import Final

from unspool.logits.distribution import entropy
from unspool.logits.scaling import Scaling
from unspool.params import DecodingParams
from unspool.types import F64


class DynamicTemperature(Scaling):
    """T = T_min + (T_max - T_min) (H / ln n)^e, with H the entropy of the n candidates alive at this place.

    A model that is sure of its token is heated little, one that wavers much. One candidate has the share 0.
    So n, and with it T, depends on what was cut before: an order that truncates first gives another T.
    """

    name: Final = "dynatemp"

    def temperature_of(self, z: F64, params: DecodingParams) -> float:
        low, high = params.dynatemp_min, params.dynatemp_max
        assert low is not None, "it is active"
        assert high is not None, "both or neither are given"
        share = min(entropy(z) / math.log(z.size), 1.0) if z.size > 1 else 0.0
        return low + (high - low) * float(share**params.dynatemp_exponent)
