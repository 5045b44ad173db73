"""From a model's name and settings to open weights and a runner with room for keys and values."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from unspool import memory
from unspool.engine.admission import check_context
from unspool.engine.journal import tell
from unspool.errors import BadRequest, CapacityError, in_python, named
from unspool.kv.layout import KvLayout, pages_for
from unspool.light_dataclass import dataclass
from unspool.models.found import Found
from unspool.models.loader import LoadedModel
from unspool.models.weights.quantized_source import check_weights
from unspool.runners.base import DEFAULT_PAGE_SIZE, RUNNERS, Runner
from unspool.sizes import read_size, shown
from unspool.thread_count import check_threads

if TYPE_CHECKING:
    from unspool.models.identity import ModelIdentity

Check: TypeAlias = "Callable[[ModelIdentity], None]"  # raises for a model that is not the one expected

MAX_PAGES: Final = 1 << 24  # far past any memory, and few enough to list
MIN_KV_TOKENS: Final = 8192  # whatever the memory
USUAL_KV_TOKENS: Final = (
    16384  # where they fit: sixteen answers of 512 tokens to one question, and their prompts
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """What an engine is built on: a model and its runner, and an amateur's where there is one."""

    runner: Runner
    model: LoadedModel
    context_length: int
    amateur: tuple[Runner, LoadedModel] | None

    def close(self) -> None:
        for runner, model in ((self.runner, self.model), *(() if self.amateur is None else (self.amateur,))):
            runner.close()
            model.close()


def load(
    model: str | Path | Found,
    *,
    threads: int | None = None,
    context_length: int | None = None,
    kv_tokens: int | None = None,
    kv_memory: int | float | str | None = None,
    page_size: int = DEFAULT_PAGE_SIZE,
    runner: str = "native",
    amateur: str | Path | Found | None = None,
    weights: str | None = None,
    check: Check | None = None,
) -> Loaded:
    """For the arguments see `Door`; everything or nothing is loaded. What `check` raises of the model is
    raised before its weights are packed."""
    check_settings(runner, threads, context_length, kv_tokens, page_size, kv_memory, weights)
    with ExitStack() as undo:
        loaded = open_model(model, weights, threads)
        undo.callback(loaded.close)
        if check is not None:
            from unspool.models.identity import identify

            check(identify(loaded.graph, loaded.source))
        second = None if amateur is None else open_model(amateur)
        if second is not None:
            undo.callback(second.close)
            from unspool.models.same_tokens import check_same_tokens

            check_same_tokens(loaded.tokenizer, second.tokenizer, loaded.name, second.name)
        context_length, kv_tokens = room_for(loaded, context_length, kv_tokens, kv_memory, page_size, second)
        built = make_runner(runner, loaded, kv_tokens, page_size, threads)
        beside = None
        if second is not None:
            undo.callback(built.close)
            beside = make_runner(runner, second, kv_tokens, page_size, threads), second
        undo.pop_all()
        return Loaded(built, loaded, context_length, beside)


def check_settings(
    runner: Any,
    threads: Any,
    context_length: Any,
    kv_tokens: Any,
    page_size: Any,
    kv_memory: Any = None,
    weights: Any = None,
) -> None:
    """BadRequest for what no model could be loaded with, before any file is touched."""
    _check_counts(context_length=context_length, kv_tokens=kv_tokens)
    check_threads(threads)
    check_weights(weights)
    if kv_memory is not None:
        read_size("kv_memory", kv_memory)
        if kv_tokens is not None:
            raise BadRequest(
                f"{named('kv_tokens', kv_tokens)} and {named('kv_memory', kv_memory)} both size the KV "
                "cache; give one of them",
                code="bad_kv_memory",
            )
    if type(page_size) is not int or page_size < 1 or page_size & (page_size - 1):
        raise BadRequest(
            f"{named('page_size')} must be a power of two, got {page_size!r}; {DEFAULT_PAGE_SIZE} is usual",
            code="bad_page_size",
        )
    if runner not in RUNNERS:
        raise BadRequest(
            f"{named('runner')} must be one of {', '.join(RUNNERS)}, got {runner!r}", code="bad_runner"
        )
    if runner == "reference" and threads is not None:
        raise BadRequest(
            f"the reference runner has no threads; leave {named('threads')} out", code="bad_threads"
        )


def open_model(
    model: str | Path | Found, weights: str | None = None, threads: int | None = None
) -> LoadedModel:
    """The model of a catalogue name (pulled when missing), file, folder or hub name.

    With `weights` its float matrices are quantized, by so many threads.

    A Path is a path, even where a model of that name is in the catalogue.
    """
    if isinstance(model, Found):
        return LoadedModel(model.path, weights, threads, name=model.name)
    if not isinstance(model, (str, Path)):
        raise BadRequest(f"{named('model')} must be a name or a path, got {model!r}", code="bad_model")
    from unspool.models import catalogue

    spec = os.path.join(os.curdir, model) if isinstance(model, Path) else model
    return LoadedModel(catalogue.resolve(spec), weights, threads, name=str(model))


def room_for(
    loaded: LoadedModel,
    context_length: int | None,
    kv_tokens: int | None,
    kv_memory: int | float | str | None = None,
    page_size: int = DEFAULT_PAGE_SIZE,
    amateur: LoadedModel | None = None,
) -> tuple[int, int]:
    """The context and the tokens of the cache: as asked, or what models of that size need. A page is one that
    either model may write, so it takes the memory of both.

    A context that was not asked for is the model's own, as far as one sequence of it fits into the cache
    that was asked for, or else into this machine's memory.
    """
    own, models = loaded.graph.context_length, [loaded, *([] if amateur is None else [amateur])]
    if context_length is not None:
        check_context(context_length, own)
    if kv_memory is not None:
        kv_tokens = _tokens_in(kv_memory, models, page_size)
    if kv_tokens is not None:
        return min(own, kv_tokens) if context_length is None else context_length, kv_tokens
    total = memory.total_bytes()
    fits = None if total is None else (total - _weight_bytes(models)) // _page_bytes(models, 1)
    if context_length is None:
        context_length = own if fits is None else min(own, max(fits, MIN_KV_TOKENS))
    usual = USUAL_KV_TOKENS if fits is None else min(USUAL_KV_TOKENS, fits)
    return context_length, max(context_length, usual, MIN_KV_TOKENS)


def _tokens_in(kv_memory: int | float | str, models: Sequence[LoadedModel], page_size: int) -> int:
    """Tokens whose pages take so many bytes, or that part of what is free beside the weights."""
    n_bytes = read_size("kv_memory", kv_memory)
    if isinstance(n_bytes, float):
        free = memory.free_bytes()
        if free is None:
            raise BadRequest(
                f"{named('kv_memory', kv_memory)} is a part of the free memory, and this system does not "
                f"say how much that is; give bytes (2GiB) or tokens{in_python(' as kv_tokens')}",
                code="bad_kv_memory",
            )
        n_bytes = int(n_bytes * max(free - _weight_bytes(models), 0))
    page_bytes = _page_bytes(models, page_size)
    if n_bytes < page_bytes:
        raise CapacityError(
            f"{named('kv_memory', kv_memory)} is {shown(n_bytes)}, and one page of {page_size} tokens "
            f"takes {shown(page_bytes)}; give more{in_python(', or a smaller page_size')}"
        )
    return n_bytes // page_bytes * page_size


def _weight_bytes(models: Sequence[LoadedModel]) -> int:
    return sum(m.source.tensor(name).data.nbytes for m in models for name in m.source.names())


def _page_bytes(models: Sequence[LoadedModel], page_size: int) -> int:
    return sum(_layout(model, page_size).page_bytes for model in models)


def _layout(loaded: LoadedModel, page_size: int) -> KvLayout:
    graph = loaded.graph
    return KvLayout(graph.n_layers, graph.n_kv_heads, graph.head_dim, page_size)


def make_runner(
    name: str, loaded: LoadedModel, kv_tokens: int, page_size: int, threads: int | None
) -> Runner:
    """The runner of that name with pages for kv_tokens tokens; CapacityError where memory runs out."""
    n_pages = pages_for(kv_tokens, page_size)
    if n_pages > MAX_PAGES:
        raise BadRequest(
            f"{named('kv_tokens')} must be at most {MAX_PAGES * page_size} with pages of {page_size}, got "
            f"{kv_tokens}",
            code="bad_kv_tokens",
        )
    started = perf_counter()
    try:
        runner = _open_runner(name, loaded, n_pages, page_size, threads)
    except MemoryError:
        gigabytes = _layout(loaded, page_size).page_bytes * n_pages / 1e9
        raise CapacityError(
            f"memory ran out while loading {loaded.name}: the KV cache of {kv_tokens} tokens takes "
            f"{gigabytes:.1f} GB beside the weights; give a smaller "
            f"{named('context_length')} or {named('kv_tokens')}",
            code="out_of_memory",
        ) from None
    tell(
        logging.INFO,
        "model.loaded",
        f"{loaded.path} on the {name} runner, {n_pages * page_size} KV tokens",
        path=str(loaded.path),
        architecture=loaded.config.family.name,
        runner=name,
        kv_tokens=n_pages * page_size,
        kv_bytes=n_pages * _layout(loaded, page_size).page_bytes,
        page_size=page_size,
        load_s=perf_counter() - started,
    )
    return runner


def _open_runner(name: str, loaded: LoadedModel, n_pages: int, page_size: int, threads: int | None) -> Runner:
    graph, source = loaded.graph, loaded.source
    if name == "reference":
        from unspool.runners.reference import ReferenceRunner

        return ReferenceRunner(graph, source, n_pages=n_pages, page_size=page_size)
    from unspool.runners.native import NativeRunner

    packed = NativeRunner(graph, source, n_pages=n_pages, page_size=page_size, n_threads=threads)
    loaded.forget_quantized()
    return packed


def _check_counts(**counts: Any) -> None:
    for name, value in counts.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise BadRequest(
                f"{named(name)} must be a whole number, at least 1, got {value!r}; leave it out for the "
                "default",
                code=f"bad_{name}",
            )
