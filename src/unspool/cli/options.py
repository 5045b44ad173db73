"""Options about the model and the machine that several commands share; those of decoding are in
decoding_options.
"""

from __future__ import annotations

from typing import Annotated

import typer

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
