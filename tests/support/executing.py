"""Runs a prompt through a runner made for the purpose: whole, or one token at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from random_plans import Part, make_plan, pages_for

from unspool.models.architectures import build_graph
from unspool.models.config import read_config
from unspool.models.weights.base import WeightSource
from unspool.runners.base import Runner
from unspool.runners.reference import ReferenceRunner


def reference_runner(source: WeightSource, n_tokens: int, page_size: int = 16, **settings: Any) -> Runner:
    """A reference runner with room for n_tokens; K and V rounded to nothing unless told otherwise."""
    settings = {"kv_dtype": np.float32, **settings}
    graph = build_graph(read_config(source), source)
    return ReferenceRunner(
        graph, source, n_pages=pages_for(n_tokens, page_size), page_size=page_size, **settings
    )


def logits_whole(runner: Runner, tokens: Sequence[int]) -> np.ndarray:
    """(T, V), all positions in one chunk."""
    pages = range(pages_for(len(tokens), runner.page_size))
    return runner.forward(make_plan([Part(tokens, 0, pages)]))


def logits_by_token(runner: Runner, tokens: Sequence[int]) -> np.ndarray:
    """(T, V), one position a step."""
    pages = range(pages_for(len(tokens), runner.page_size))
    return np.concatenate(
        [runner.forward(make_plan([Part([token], n_past, pages)])) for n_past, token in enumerate(tokens)]
    )
