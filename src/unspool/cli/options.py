"""Options about the model and the machine, and a decorator that writes them into a command's signature; those
of decoding are in decoding_options.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from unspool.cli.model_options import CONTRAST, gathered
from unspool.models.catalogue import DEFAULT_MODEL

_WHERE: Final = "Model and machine"
HOW: Final = "Decoding (`unspool params` has all parameters)"

Model = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        metavar="MODEL",
        help="A catalogue name (see `unspool models list`), a GGUF file, a safetensors folder, or "
        "hf:org/repo[/file.gguf].",
        rich_help_panel=_WHERE,
    ),
]
Amateur = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="A smaller model of the same tokens, given as --model is: contrastive decoding takes its habits "
        "off the answer.",
        rich_help_panel=_WHERE,
    ),
]
Contrast = Annotated[
    str | None,
    typer.Option(
        metavar="alpha=X,beta=X",
        help="With --amateur: beta is how much of it is taken off, alpha the share of the largest "
        "probability that a token needs to be plausible. [default: alpha=0.1,beta=0.5]",
        rich_help_panel=HOW,
    ),
]
Threads = Annotated[
    str | None,
    typer.Option(metavar="N", help="Threads to compute with. [default: all cores]", rich_help_panel=_WHERE),
]
Context = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="Longest sequence in tokens, prompt included. [default: the model's, within memory]",
        rich_help_panel=_WHERE,
    ),
]
Kv = Annotated[
    str | None,
    typer.Option(
        "--kv",
        metavar="SIZE",
        help="Size of the KV cache: tokens (16384), memory (2GiB) or a part of the free memory (50%). "
        "[default: one whole context, at least 16384 tokens]",
        rich_help_panel=_WHERE,
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        metavar="q8|q4",
        help="Quantize a model in F32, F16 or BF16 as it is loaded. [default: as it is stored]",
        rich_help_panel=_WHERE,
    ),
]
Runner = Annotated[
    str,
    typer.Option(
        metavar="native|reference",
        help="native is fast; reference is slow NumPy to compare with.",
        rich_help_panel=_WHERE,
    ),
]


def with_model_options(command: Callable[..., None]) -> Callable[..., None]:
    """Write --model in the place of a command's parameter `model`, and its companions behind `decoding`.

    The command gets ModelOptions, and the Decoding with what --contrast says.
    """

    @functools.wraps(command)
    def run(**given: Any) -> None:
        command(**gathered(given))

    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        parameters.append(_MODEL if parameter.name == "model" else parameter)
        if parameter.name == "decoding":
            parameters += _BESIDE
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
    return run


def _parameter(name: str, annotation: Any, default: str | None = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_MODEL: Final = _parameter("model", Model, DEFAULT_MODEL)
_BESIDE: Final = (
    _parameter(CONTRAST, Contrast),
    _parameter("amateur", Amateur),
    _parameter("threads", Threads),
    _parameter("context", Context),
    _parameter("kv", Kv),
    _parameter("runner", Runner, "native"),
    _parameter("weights", Weights),
)
