"""Options that several commands share, and how they become DecodingParams.

An option left out is None here, so that what the user typed can be told from a default: a value that
was typed and cannot matter is pointed out, a default is not. Numbers arrive as the text that was typed:
the parameters themselves say what is wrong with one, in the words that Python and `/set` use too.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unspool.cli.text import checked, number_or_text
from unspool.errors import BadRequest

if TYPE_CHECKING:
    from unspool.params import DecodingParams

# The profile `chat` of the decoding guide, for raw prompts too: one rule is easier to remember than two.
DEFAULT_TEMPERATURE = 0.8
DEFAULT_TOP_P = 0.9

_WHERE = "Model and machine"
_HOW = "Decoding"

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
Runner = Annotated[
    str,
    typer.Option(
        metavar="native|reference",
        help="native is fast; reference is slow NumPy to compare with.",
        rich_help_panel=_WHERE,
    ),
]
MaxTokens = Annotated[
    str | None,
    typer.Option(
        metavar="N|none",
        help="Write at most N tokens; none writes to the end of the context. [default: 512]",
        rich_help_panel=_HOW,
    ),
]
Temperature = Annotated[
    str | None,
    typer.Option(
        metavar="T",
        help=f"Logits are divided by T; 0 always takes the likeliest token. [default: {DEFAULT_TEMPERATURE}]",
        rich_help_panel=_HOW,
    ),
]
TopK = Annotated[
    str | None,
    typer.Option(
        metavar="K", help="Keep the K likeliest tokens; 0 is off. [default: 0]", rich_help_panel=_HOW
    ),
]
TopP = Annotated[
    str | None,
    typer.Option(
        metavar="P",
        help=f"Keep the likeliest tokens until their mass reaches P; 1 is off. [default: {DEFAULT_TOP_P}]",
        rich_help_panel=_HOW,
    ),
]
MinP = Annotated[
    str | None,
    typer.Option(
        metavar="P",
        help="Keep tokens with at least this share of the largest probability; 0 is off. [default: 0]",
        rich_help_panel=_HOW,
    ),
]
Seed = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="The same seed repeats the same text. [default: fresh, and reported at the end]",
        rich_help_panel=_HOW,
    ),
]
Stop = Annotated[
    list[str] | None,
    typer.Option(metavar="TEXT", help="Stop before this text; may be repeated.", rich_help_panel=_HOW),
]
IgnoreEos = Annotated[
    bool,
    typer.Option("--ignore-eos", help="Write on past the model's end of text.", rich_help_panel=_HOW),
]


def typed_values(ignore_eos: bool, stop: list[str] | None, **numbers: str | None) -> dict[str, Any]:
    """Names and values of the decoding parameters that were typed. Raises BadRequest."""
    values: dict[str, Any] = {
        name: None if text.lower() == "none" else number_or_text(text)
        for name, text in numbers.items()
        if text is not None
    }
    if stop:
        values["stop"] = tuple(checked(text, "--stop") for text in stop)
    if ignore_eos:
        values["ignore_eos"] = True
    return values


def with_defaults(typed: Mapping[str, Any]) -> DecodingParams:
    """What was typed over the defaults of the command line. Raises BadRequest."""
    from unspool.params import DecodingParams

    values = {"temperature": DEFAULT_TEMPERATURE} | dict(typed)
    if values["temperature"] != 0:
        values.setdefault("top_p", DEFAULT_TOP_P)
    return DecodingParams.from_dict(values)


def note_unused(params: DecodingParams, *, quiet: bool) -> None:
    """Say on standard error what was given and cannot matter."""
    if params.unused() and not quiet:
        print(f"note: at temperature 0 these change nothing: {', '.join(params.unused())}", file=sys.stderr)


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
