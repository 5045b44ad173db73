"""`unspool run`: one prompt, one answer or several, streamed."""

from __future__ import annotations

from typing import Annotated

import typer

from unspool.cli.answer import NEEDS, answer
from unspool.cli.decoding import Decoding
from unspool.cli.decoding_options import with_decoding_options
from unspool.cli.model_options import ModelOptions
from unspool.cli.options import with_model_options

Prompt = Annotated[
    str | None,
    typer.Argument(metavar="PROMPT", help="What to ask. Left out or '-': read from standard input."),
]
Raw = Annotated[
    bool, typer.Option("--raw", help="Continue the text as it stands, without the model's chat template.")
]
System = Annotated[str | None, typer.Option(metavar="TEXT", help="A system message, for the chat template.")]
Answers = Annotated[
    str | None,
    typer.Option("-n", metavar="N", help="Write so many answers, each with random numbers of its own."),
]
Search = Annotated[
    str | None,
    typer.Option(
        metavar="NAME[:SETTING=VALUE,...]",
        help="How answers are looked for: sample, beam, beam-sample, constrained-beam, diverse-beam or "
        "stochastic-beam, with settings as in beam:width=8,alpha=0.6. Of beams the best answer is streamed "
        "as far as all agree. [default: the profile's, else sample]",
    ),
]
MustContain = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TEXT",
        help="What each answer must contain, by a constrained beam; again for more. A | stands between "
        "alternatives; with a backslash before it, it is the sign itself.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Nothing on standard error but errors.")]


@with_decoding_options(has=NEEDS)
@with_model_options
def run(
    *,
    prompt: Prompt = None,
    model: ModelOptions,
    raw: Raw = False,
    system: System = None,
    n: Answers = None,
    search: Search = None,
    must_contain: MustContain = None,
    decoding: Decoding,
    quiet: Quiet = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print one JSON object with text, token ids, usage and parameters, or with -n a list.",
        ),
    ] = False,
) -> None:
    """Answer one prompt. Standard output has the text and nothing else, standard error the figures.

    A prompt goes through the model's chat template. With --raw, or when the model has no template, it
    is continued as it stands. One newline at the end of standard input is dropped. With -n there is a
    line of three dashes between answers.
    """
    answer(
        prompt=prompt,
        model=model,
        raw=raw,
        system=system,
        n=n,
        search=search,
        must_contain=must_contain,
        decoding=decoding,
        quiet=quiet,
        as_json=as_json,
    )
