"""The runners that the contract tests hold to their promises: add one line to join."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tiny_models import ArraySource

from unspool.models.architectures import build_graph
from unspool.models.config import read_config
from unspool.runners.base import Runner
from unspool.runners.reference import ReferenceRunner

MakeRunner = Callable[..., Runner]  # (source, n_pages=, page_size=) -> Runner


def _reference(source: ArraySource, **settings: Any) -> Runner:
    return ReferenceRunner(build_graph(read_config(source), source), source, **settings)


RUNNERS: dict[str, MakeRunner] = {"reference": _reference}
