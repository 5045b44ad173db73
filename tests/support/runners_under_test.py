"""The runners that the contract tests hold to their promises: add one line to join."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tiny_models import ArraySource

from unspool.models.architectures import build_graph
from unspool.models.config import read_config
from unspool.runners.base import Runner
from unspool.runners.native import NativeRunner, instruction_sets
from unspool.runners.reference import ReferenceRunner

MakeRunner = Callable[..., Runner]  # (source, n_pages=, page_size=) -> Runner


def _reference(source: ArraySource, **settings: Any) -> Runner:
    return ReferenceRunner(build_graph(read_config(source), source), source, **settings)


def _native(isa: str, n_threads: int) -> MakeRunner:
    def make(source: ArraySource, **settings: Any) -> Runner:
        graph = build_graph(read_config(source), source)
        return NativeRunner(graph, source, n_threads=n_threads, isa=isa, **settings)

    return make


# The native runner joins once for each instruction set of this machine, the first with two threads.
RUNNERS: dict[str, MakeRunner] = {
    "reference": _reference,
    **{f"native-{isa}": _native(isa, 2 if n == 0 else 1) for n, isa in enumerate(instruction_sets())},
}
