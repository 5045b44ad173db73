"""From a model's name, its file or its shape to the memory that it would take."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, cast

from unspool.errors import BadRequest, brief, named
from unspool.kv.calculator import FORMATS, KvFormat, KvMemory
from unspool.models import catalogue
from unspool.models.architectures import build_graph
from unspool.models.cache_shape import CacheShape
from unspool.models.catalogue import LoadedSize
from unspool.models.config import read_config
from unspool.models.same_tokens import check_same_tokens, other_tokens
from unspool.models.shape_reader import read_shape
from unspool.models.tokenizer import load_tokenizer
from unspool.models.weights import WeightSource, open_weights
from unspool.runners.base import DEFAULT_PAGE_SIZE
from unspool.runners.packed_size import weight_bytes as packed_weight_bytes

_STEP_ROWS: Final = 512  # Limits.n_rows
_STEP_TASKS: Final = 64  # Limits.n_tasks
_ROW_VALUE_BYTES: Final = 6  # float32, and an 8-bit form with its scales beside it
DEFAULT_CONTEXT: Final = 8192  # tokens, for a shape that has none of its own


def kv_memory(
    model: str | Path | None = None,
    *,
    shape: CacheShape | None = None,
    context_length: int | None = None,
    n_sequences: int = 1,
    kv_format: str = "f16",
    page_size: int = DEFAULT_PAGE_SIZE,
    weight_bytes: int | None = None,
    amateur: str | Path | None = None,
) -> KvMemory:
    """The memory of n_sequences sequences of context_length tokens, weights included; nothing is loaded.

    model           a catalogue name, installed or not; a GGUF file, of which only the head is read; a
                    safetensors folder; or hf:org/repo that is in the cache
    shape           instead of a model: `CacheShape.of_heads` or `.of_latent`
    context_length  the model's own when left out
    kv_format       f16, or int8 or int4 to see what such a cache would take; scales come on top of it
    weight_bytes    of the weights as loaded, when `shape` is given
    amateur         a second model that is loaded beside, and reads every sequence too

    Raises BadRequest for a value out of its range, for a model and a shape at once, and for an amateur beside
    a shape or with other tokens than the model has.
    """
    _check_counts(context_length=context_length, n_sequences=n_sequences, page_size=page_size)
    if page_size & (page_size - 1):
        raise BadRequest(
            f"{named('page_size')} must be a power of two, got {page_size}; {DEFAULT_PAGE_SIZE} is usual",
            code="bad_page_size",
        )
    if kv_format not in FORMATS:
        raise BadRequest(
            f"{named('kv_format')} must be one of {', '.join(FORMATS)}, got {brief(kv_format)}",
            code="bad_kv_format",
        )
    if (model is None) == (shape is None):
        raise BadRequest("a model or a shape is measured; give one of them", code="bad_model")
    step_bytes, runs_it = None, True
    if shape is not None:
        if amateur is not None:
            raise BadRequest(
                f"{named('amateur', amateur)} reads beside a model, and a shape in numbers is none; give "
                f"{named('model')}",
                code="bad_amateur",
            )
        runs_it = shape.kind == "heads"
    else:
        assert model is not None
        size, runs_it = _size_of(model)
        shape, weight_bytes = size.shape, size.weight_bytes if weight_bytes is None else weight_bytes
        step_bytes = _step_bytes(size, n_sequences) if runs_it else None
        if amateur is not None:
            its, runs_its = _size_of(amateur)
            if runs_it and runs_its:
                _check_tokens(model, amateur, size, its)
            shape, weight_bytes = shape.beside(its.shape), weight_bytes + its.weight_bytes
            runs_it = runs_it and runs_its
            step_bytes = (step_bytes or 0) + _step_bytes(its, n_sequences) if runs_it else None
    context_length = context_length or shape.context_length or DEFAULT_CONTEXT
    return KvMemory(
        *(shape, context_length, n_sequences, cast(KvFormat, kv_format), page_size),
        *(weight_bytes, step_bytes, runs_it, 1 if amateur is None else 2),
    )


def _step_bytes(size: LoadedSize, n_sequences: int) -> int:
    """What the largest step of so many sequences works in, about."""
    logits_bytes = 4 * min(n_sequences, _STEP_TASKS) * size.vocab_size
    return _ROW_VALUE_BYTES * _STEP_ROWS * size.row_values + logits_bytes


def _check_tokens(model: str | Path, amateur: str | Path, own: LoadedSize, its: LoadedSize) -> None:
    """Raise BadRequest for an amateur that has not the model's tokens, and ModelNotFound where that cannot be
    told before it is installed. A size of 0 is not known."""
    if 0 < its.vocab_size < own.vocab_size:
        raise BadRequest(
            f"the amateur has {its.vocab_size} tokens and the model {own.vocab_size}; both must have "
            "the same tokens, as models of one family do",
            code="bad_amateur",
        )
    if model == amateur:
        return
    listed = [catalogue.CATALOGUE.get(each) for each in (model, amateur) if isinstance(each, str)]
    if len(known := [each for each in listed if each is not None]) == 2:
        if known[0].vocabulary != known[1].vocabulary:
            raise other_tokens(str(model), str(amateur))
        return
    with ExitStack() as undo:
        sources = []
        for each in (model, amateur):
            sources.append(_opened(each))
            undo.callback(sources[-1].close)
        own_tokens, its_tokens = map(load_tokenizer, sources)
        check_same_tokens(own_tokens, its_tokens, str(model), str(amateur))


def _opened(model: str | Path) -> WeightSource:
    spec = os.path.join(os.curdir, model) if isinstance(model, Path) else model
    return open_weights(catalogue.resolve(spec, pull=False))


def _size_of(model: str | Path) -> tuple[LoadedSize, bool]:
    """What the model takes once loaded, and whether this engine runs it."""
    if not isinstance(model, (str, Path)):
        raise BadRequest(f"{named('model')} must be a name or a path, got {model!r}", code="bad_model")
    known = catalogue.CATALOGUE.get(model) if isinstance(model, str) else None
    if known is not None and known.loaded is not None:
        return known.loaded, True
    source = _opened(model)
    try:
        shape, runs_it = read_shape(source)
        return (_read_size(source, shape) if runs_it else _stored_size(source, shape)), runs_it
    finally:
        source.close()


def _read_size(source: WeightSource, shape: CacheShape) -> LoadedSize:
    graph = build_graph(read_config(source), source)
    row_values = sum(width for name, width in graph.widths.items() if name != "logits")
    return LoadedSize(shape, packed_weight_bytes(graph, source), row_values, graph.vocab_size)


def _stored_size(source: WeightSource, shape: CacheShape) -> LoadedSize:
    """Of a model that no runner packs: its weights as they lie in the file."""
    return LoadedSize(shape, sum(source.tensor(name).data.nbytes for name in source.names()), 0, 0)


def _check_counts(**counts: Any) -> None:
    for name, value in counts.items():
        if name == "context_length" and value is None:
            continue
        if type(value) is not int or not 1 <= value <= 1 << 40:
            raise BadRequest(
                f"{named(name)} must be a whole number in [1, 2**40], got {brief(value)}; leave it out "
                "for the default",
                code=f"bad_{name}",
            )
