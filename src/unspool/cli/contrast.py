"""--amateur and --contrast: a second model, and how much of what it says is taken off."""

from __future__ import annotations

from typing import Annotated

import typer

Amateur = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="A smaller model of the same tokens, given as --model is: contrastive decoding takes its habits "
        "off the answer.",
        rich_help_panel="Model and machine",
    ),
]
Contrast = Annotated[
    str | None,
    typer.Option(
        metavar="alpha=X,beta=X",
        help="With --amateur: beta is how much of it is taken off, alpha the share of the largest "
        "probability that a token needs to be plausible. [default: alpha=0.1,beta=0.5]",
        rich_help_panel="Decoding (`unspool params` has all parameters)",
    ),
]
