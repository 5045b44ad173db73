"""EDT: a temperature that falls with the entropy. (Zhang et al. 2024, arXiv 2403.14541)"""

from __future__ import annotations

from typing import Final

from unspool.logits.distribution import entropy
from unspool.logits.scaling import Scaling
from unspool.params import DecodingParams
from unspool.types import F64


class EntropyTemperature(Scaling):
    """T = T0 N^(theta / H), with T0 the `temperature`, N in (0, 1), H in nats over the candidates alive.

    H towards 0 gives T towards 0, so what the model is sure of becomes certain; a large H gives T0.
    """

    name: Final = "edt"

    def temperature_of(self, z: F64, params: DecodingParams) -> float:
        h = entropy(z)
        return float(params.temperature * params.edt_base ** (params.edt_theta / h)) if h > 0 else 0.0
