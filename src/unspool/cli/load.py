"""From --model and its companions to a loaded model, with a bar while one is being pulled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from unspool.engine.limits import Limits
    from unspool.llm import LLM
    from unspool.loading import Check

NO_SIZE: Final[Mapping[str, Any]] = MappingProxyType({})


def load_llm(
    model: str,
    *,
    threads: int | None,
    context: int | None,
    runner: str,
    kv: Mapping[str, Any] = NO_SIZE,
    quiet: bool = False,
    amateur: str | None = None,
    weights: str | None = None,
    limits: Limits | None = None,
    check: Check | None = None,
) -> LLM:
    """Find the model, pulling it when the catalogue has it and the cache has not, and load it, the amateur
    beside it likewise; `check` may refuse the model before that."""
    from unspool.models.found import Found

    _check(runner, threads, context, kv, weights)
    path = found_model(model, quiet=quiet)
    beside = None if amateur is None else Found(amateur, found_model(amateur, quiet=quiet))
    from unspool import loading
    from unspool.background import Background

    # Packing weights needs little of the interpreter, and the engine's modules need nothing of the weights.
    loaded = Background(
        lambda: loading.load(
            Found(model, path),
            threads=threads,
            context_length=context,
            runner=runner,
            amateur=beside,
            weights=weights,
            check=check,
            **kv,
        )
    )
    from unspool.llm import LLM

    return LLM.from_loaded(loaded.result(), limits=limits)


def _check(
    runner: str, threads: int | None, context: int | None, kv: Mapping[str, Any], weights: str | None
) -> None:
    """Raise BadRequest for what no model could be loaded with, before one is fetched."""
    from unspool.loading import check_settings
    from unspool.runners.base import DEFAULT_PAGE_SIZE

    size = {"kv_tokens": None, "kv_memory": None, **kv}
    check_settings(runner, threads, context, page_size=DEFAULT_PAGE_SIZE, weights=weights, **size)


def found_model(model: str, *, quiet: bool) -> Path:
    """The path of a model, pulled when the catalogue has it and the cache has not."""
    from unspool.cli.progress import pull_progress
    from unspool.models import catalogue

    with pull_progress(model, quiet=quiet) as progress:
        return catalogue.resolve(model, progress=progress)


def can_chat(llm: LLM) -> bool:
    """Whether the model has a chat template. One that is there and does not work raises TemplateError."""
    return llm.has_chat_template and llm.chat_template is not None
