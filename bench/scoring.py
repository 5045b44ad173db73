"""Probabilities from logits, in float64; shared by both sides of a comparison (NumPy only)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]


def log_softmax(logits: F32) -> F64:
    """(N, V) logits to (N, V) logprobs."""
    wide: F64 = logits.astype(np.float64)
    wide -= wide.max(axis=1, keepdims=True)
    wide -= np.log(np.exp(wide).sum(axis=1, keepdims=True))
    return wide


def target_logprobs(logits: F32, targets: Sequence[int]) -> F64:
    """(N,) logprob of target i under row i of (N, V) logits."""
    chosen: F64 = log_softmax(logits)[np.arange(len(targets)), np.asarray(targets)]
    return chosen
