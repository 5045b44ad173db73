"""Every stage by its name, and which of them a request's rows go through, in what order."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from unspool.logits.adaptive import Adaptive
from unspool.logits.bias import Bias
from unspool.logits.dry import Dry
from unspool.logits.dynatemp import DynamicTemperature
from unspool.logits.edt import EntropyTemperature
from unspool.logits.epsilon import Epsilon
from unspool.logits.eta import Eta
from unspool.logits.masks import MASKS
from unspool.logits.min_p import MinP
from unspool.logits.mirostat import Mirostat
from unspool.logits.observer import Observer
from unspool.logits.penalties import Frequency, Presence, Repetition
from unspool.logits.smoothing import Smoothing
from unspool.logits.stage import Stage
from unspool.logits.temperature import Temperature
from unspool.logits.tfs import TailFree
from unspool.logits.top_a import TopA
from unspool.logits.top_h import TopH
from unspool.logits.top_k import TopK
from unspool.logits.top_n_sigma import TopNSigma
from unspool.logits.top_p import TopP
from unspool.logits.typical import Typical
from unspool.logits.xtc import Xtc
from unspool.param_conflicts import ORDERS, stages_of
from unspool.params import DecodingParams

# Those that learn from the chosen token; a request has one of them at most.
OBSERVERS: Final[Mapping[str, Observer]] = {stage.name: stage for stage in (Mirostat(), Adaptive())}

# What `order` arranges; the orders themselves are in param_conflicts, where parameters are checked.
_ARRANGED: Final[tuple[Stage, ...]] = (
    Repetition(), Frequency(), Presence(), Dry(), Bias(),
    Temperature(), DynamicTemperature(), EntropyTemperature(), Smoothing(),
    TopNSigma(), TopK(), TopP(), MinP(), Typical(), TopH(), Epsilon(), Eta(), TopA(), TailFree(), Xtc(),
    *OBSERVERS.values(),
)  # fmt: skip
STAGES: Final[Mapping[str, Stage]] = {stage.name: stage for stage in _ARRANGED}

PIPELINE: Final[tuple[Stage, ...]] = (*MASKS, *(STAGES[name] for name in ORDERS["unspool"] if name in STAGES))


@lru_cache(maxsize=256)
def stages_for(params: DecodingParams) -> tuple[Stage, ...]:
    """The stages that these parameters ask for, in their order."""
    arranged = (STAGES[name] for name in stages_of(params.order) if name in STAGES)
    return tuple(stage for stage in (*MASKS, *arranged) if stage.is_active(params))
