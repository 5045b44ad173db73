"""unspool: a decoding engine for language models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unspool.aio import AsyncLLM as AsyncLLM
    from unspool.engine.async_stream import AsyncEventStream as AsyncEventStream
    from unspool.engine.limits import Limits as Limits
    from unspool.engine.stats import EngineStats as EngineStats
    from unspool.engine.stream import EventStream as EventStream
    from unspool.errors import BadRequest as BadRequest
    from unspool.errors import UnspoolError as UnspoolError
    from unspool.kv.calculator import KvMemory as KvMemory
    from unspool.llm import LLM as LLM
    from unspool.models.quantize_file import quantize_file as quantize_file
    from unspool.params import DecodingParams as DecodingParams
    from unspool.saving import SavedText as SavedText
    from unspool.scoring import Score as Score
    from unspool.search.beam import Beam as Beam
    from unspool.search.beam_sample import BeamSample as BeamSample
    from unspool.search.best_of import BestOf as BestOf
    from unspool.search.constrained_beam import ConstrainedBeam as ConstrainedBeam
    from unspool.search.diverse_beam import DiverseBeam as DiverseBeam
    from unspool.search.stochastic_beam import StochasticBeam as StochasticBeam
    from unspool.search_tree import SearchTree as SearchTree
    from unspool.sizing import kv_memory as kv_memory
    from unspool.trace import TokenTrace as TokenTrace
    from unspool.types import Completion as Completion
    from unspool.types import Event as Event
    from unspool.types import InterToken as InterToken
    from unspool.types import TokenLogprob as TokenLogprob
    from unspool.types import TokenLogprobs as TokenLogprobs
    from unspool.types import Usage as Usage

__version__ = "0.1.0"

_HOME = {
    "LLM": "unspool.llm",
    "AsyncEventStream": "unspool.engine.async_stream",
    "AsyncLLM": "unspool.aio",
    "Beam": "unspool.search.beam",
    "BeamSample": "unspool.search.beam_sample",
    "BestOf": "unspool.search.best_of",
    "ConstrainedBeam": "unspool.search.constrained_beam",
    "DiverseBeam": "unspool.search.diverse_beam",
    "StochasticBeam": "unspool.search.stochastic_beam",
    "BadRequest": "unspool.errors",
    "Completion": "unspool.types",
    "DecodingParams": "unspool.params",
    "EngineStats": "unspool.engine.stats",
    "Event": "unspool.types",
    "EventStream": "unspool.engine.stream",
    "InterToken": "unspool.types",
    "KvMemory": "unspool.kv.calculator",
    "kv_memory": "unspool.sizing",
    "quantize_file": "unspool.models.quantize_file",
    "Score": "unspool.scoring",
    "SavedText": "unspool.saving",
    "SearchTree": "unspool.search_tree",
    "TokenLogprob": "unspool.types",
    "TokenLogprobs": "unspool.types",
    "TokenTrace": "unspool.trace",
    "Limits": "unspool.engine.limits",
    "UnspoolError": "unspool.errors",
    "Usage": "unspool.types",
}

__all__ = [
    "LLM",
    "AsyncEventStream",
    "AsyncLLM",
    "BadRequest",
    "Beam",
    "BeamSample",
    "BestOf",
    "Completion",
    "ConstrainedBeam",
    "DecodingParams",
    "DiverseBeam",
    "EngineStats",
    "Event",
    "EventStream",
    "InterToken",
    "KvMemory",
    "Limits",
    "SavedText",
    "Score",
    "SearchTree",
    "StochasticBeam",
    "TokenLogprob",
    "TokenLogprobs",
    "TokenTrace",
    "UnspoolError",
    "Usage",
    "__version__",
    "kv_memory",
    "quantize_file",
]


def __getattr__(name: str) -> Any:
    """Import public names on first use, so that `import unspool` costs next to nothing."""
    if name not in _HOME:
        raise AttributeError(f"module 'unspool' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
