"""The options that give what the library calls by other names: how its errors speak at the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from unspool.errors import UnspoolError

OPTIONS: Final[Mapping[str, str]] = {
    # Of a model and the machine
    "model": "--model",
    "amateur": "--amateur",
    "threads": "--threads",
    "context_length": "--context",
    "kv_tokens": "--kv",
    "kv_memory": "--kv",
    "runner": "--runner",
    "weights": "--weights",
    # Of a request
    "n": "-n",
    "search": "--search",
    "budget_tokens": "--budget",
    "Sample": "sample",
    "Beam": "beam",
    "BeamSample": "beam-sample",
    "ConstrainedBeam": "constrained-beam",
    "DiverseBeam": "diverse-beam",
    "StochasticBeam": "stochastic-beam",
    # Of a verifier
    "url": "--url",
    "allow_weak": "--with allow_weak=",
    "score_field": "--with score_field=",
    "timeout_s": "--with timeout_s=",
    # Of single commands: kv, bench, quantize
    "n_sequences": "--batch",
    "n_layers": "--layers",
    "n_kv_heads": "--kv-heads",
    "head_dim": "--head-dim",
    "windows": "--window",
    "latent_rank": "--latent",
    "rope_dim": "--rope-dim",
    "page_size": "--page-size",
    "rows": "--rows",
    "prompt": "--prompt",
    "context": "--context",
    "rounds": "--rounds",
    "kind": "--type",
}
VALUES: Final[Mapping[str, str]] = {"None": "none", "True": "true", "False": "false"}


def as_typed(error: UnspoolError) -> str:
    """What an error says to who typed a command."""
    return error.worded(OPTIONS, VALUES)
