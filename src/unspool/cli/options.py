"""Options about the model and the machine that several commands share; those of decoding are in
decoding_options.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from unspool.cli.text import number_or_text
from unspool.errors import BadRequest
from unspool.sizes import read_size

_WHERE = "Model and machine"

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
        "[default: one whole context, at least 8192 tokens]",
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


def kv_size(text: str | None) -> dict[str, Any]:
    """--kv as settings of LLM. Raises BadRequest."""
    value = None if text is None else number_or_text(text)
    if value is None or (isinstance(value, int) and value >= 1):
        return {"kv_tokens": value}
    read_size("--kv", text if isinstance(value, int) else value, also="tokens (16384), ")
    return {"kv_memory": value}


def count(name: str, text: str | None) -> int | None:
    """An option that counts something. Raises BadRequest."""
    value = None if text is None else number_or_text(text)
    if value is None or (isinstance(value, int) and value >= 1):
        return value
    shown = repr(value) if isinstance(value, str) else value
    raise BadRequest(
        f"{name} must be a whole number, at least 1, got {shown}; leave it out for the default",
        code=f"bad_{name.strip('-')}",
    )


def whole(name: str, text: str, least: int = 0) -> int:
    """An option that counts something, where 0 may be a count. Raises BadRequest."""
    value = number_or_text(text)
    if not isinstance(value, int) or value < least:
        raise BadRequest(
            f"{name} must be a whole number, at least {least}, got {text!r}", code=f"bad_{name.strip('-')}"
        )
    return value
