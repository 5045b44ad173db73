"""From a model's name and settings to open weights and a runner with room for keys and values."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from unspool.engine.engine import check_context
from unspool.errors import BadRequest, CapacityError
from unspool.kv.layout import KvLayout, pages_for
from unspool.models.loader import LoadedModel
from unspool.runners.base import RUNNERS, Runner

MAX_PAGES: Final = 1 << 24  # far past any memory, and few enough to list
MIN_KV_TOKENS: Final = 8192  # room for several requests where a model's context is short


def check_settings(runner: Any, threads: Any, context_length: Any, kv_tokens: Any, page_size: Any) -> None:
    """BadRequest for what no model could be loaded with, before any file is touched."""
    _check_counts(threads=threads, context_length=context_length, kv_tokens=kv_tokens)
    if type(page_size) is not int or page_size < 1 or page_size & (page_size - 1):
        raise BadRequest(f"page_size must be a power of two, got {page_size!r}", code="bad_page_size")
    if runner not in RUNNERS:
        raise BadRequest(f"runner must be one of {', '.join(RUNNERS)}, got {runner!r}", code="bad_runner")
    if runner == "reference" and threads is not None:
        raise BadRequest("the reference runner has no threads; leave threads out", code="bad_threads")


def open_model(model: str | Path) -> LoadedModel:
    """The model of a catalogue name (pulled when missing), file, folder or hub name.

    A Path is a path, even where a model of that name is in the catalogue.
    """
    if not isinstance(model, (str, Path)):
        raise BadRequest(f"model must be a name or a path, got {model!r}", code="bad_model")
    from unspool.models import catalogue

    spec = os.path.join(os.curdir, model) if isinstance(model, Path) else model
    return LoadedModel(catalogue.resolve(spec))


def room_for(loaded: LoadedModel, context_length: int | None, kv_tokens: int | None) -> tuple[int, int]:
    """The context and the tokens of the cache: as asked, or what a model of that size needs.

    A context that was not asked for is the model's own, as far as one sequence of it fits into memory.
    """
    own = loaded.graph.context_length
    if context_length is not None:
        check_context(context_length, own)
    elif kv_tokens is not None or (memory := _memory_bytes()) is None:
        context_length = own
    else:
        free = memory - sum(loaded.source.tensor(name).data.nbytes for name in loaded.source.names())
        context_length = min(own, max(free // _layout(loaded, 1).token_bytes, MIN_KV_TOKENS))
    return context_length, max(context_length, MIN_KV_TOKENS) if kv_tokens is None else kv_tokens


def _memory_bytes() -> int | None:
    """Memory of this machine; None where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _layout(loaded: LoadedModel, page_size: int) -> KvLayout:
    graph = loaded.graph
    return KvLayout(graph.n_layers, graph.n_kv_heads, graph.head_dim, page_size)


def make_runner(
    name: str, loaded: LoadedModel, kv_tokens: int, page_size: int, threads: int | None
) -> Runner:
    """The runner of that name with pages for kv_tokens tokens; CapacityError where memory runs out."""
    graph, source = loaded.graph, loaded.source
    n_pages = pages_for(kv_tokens, page_size)
    if n_pages > MAX_PAGES:
        raise BadRequest(
            f"kv_tokens must be at most {MAX_PAGES * page_size} with pages of {page_size}, got {kv_tokens}",
            code="bad_kv_tokens",
        )
    try:
        if name == "reference":
            from unspool.runners.reference import ReferenceRunner

            return ReferenceRunner(graph, source, n_pages=n_pages, page_size=page_size)
        from unspool.runners.native import NativeRunner

        return NativeRunner(graph, source, n_pages=n_pages, page_size=page_size, n_threads=threads)
    except MemoryError:
        gigabytes = _layout(loaded, page_size).page_bytes * n_pages / 1e9
        raise CapacityError(
            f"memory ran out while loading {loaded.path}: the KV cache of {kv_tokens} tokens takes "
            f"{gigabytes:.1f} GB beside the weights; give a smaller context_length (--context) or kv_tokens",
            code="out_of_memory",
        ) from None


def _check_counts(**counts: Any) -> None:
    for name, value in counts.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise BadRequest(
                f"{name} must be a whole number, at least 1, got {value!r}; leave it out for the default",
                code=f"bad_{name}",
            )
