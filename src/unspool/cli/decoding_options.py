"""Every decoding parameter as an option: a decorator writes them into a command's signature.

The ones in COMMON stand in the command's --help; the others work as well, and `unspool params` lists
them all. Nothing is left out, and nothing is said twice: names, ranges and meanings come from
DecodingParams.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import typer

from unspool.cli.decoding import DEFAULT_PROFILE
from unspool.cli.options import HOW
from unspool.cli.param_words import DEFAULTS, FLAGS, IDS, TEXTS, meaning, metavar, shown
from unspool.cli.typed import NO_DEFAULTS, decoding_of, option

_ENDS: Final = "Where it ends"

# Shown by --help, with the panel that they stand in.
COMMON: Final = {
    "temperature": HOW,
    "top_k": HOW,
    "top_p": HOW,
    "min_p": HOW,
    "typical_p": HOW,
    "top_n_sigma": HOW,
    "xtc_probability": HOW,
    "mirostat": HOW,
    "repetition_penalty": HOW,
    "frequency_penalty": HOW,
    "presence_penalty": HOW,
    "dry_multiplier": HOW,
    "bad_words": HOW,
    "logit_bias": HOW,
    "guidance_scale": HOW,
    "negative_prompt": HOW,
    "order": HOW,
    "seed": HOW,
    "max_tokens": _ENDS,
    "min_tokens": _ENDS,
    "stop": _ENDS,
    "stop_regex": _ENDS,
    "ignore_eos": _ENDS,
    "deadline_s": _ENDS,
}
_DEFAULT_WORDS: Final = {  # where the default of DecodingParams is not what a command has
    "temperature": "0.8, from the profile",
    "top_p": "0.9, from the profile",
    "seed": "fresh, and reported at the end",
}


def with_decoding_options(
    *,
    leave_out: tuple[str, ...] = (),
    defaults: Mapping[str, Any] = NO_DEFAULTS,
    has: tuple[str, ...] = (),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace a command's parameter `decoding` by --profile, --set and one option a parameter.

    The command gets a Decoding. `leave_out` names parameters that the command sets itself; `defaults` has
    its own values for what is neither typed nor in the profile; `has` are kinds of a profile's needs that the
    command sees to.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        names = [name for name in DEFAULTS if name not in leave_out]

        @functools.wraps(command)
        def run(**given: Any) -> None:
            how = {name: given.pop(name) for name in ("profile", "assignments", *names)}
            command(**given, decoding=decoding_of(how, leave_out, defaults, has))

        signature = inspect.signature(command, eval_str=True)
        parameters: list[inspect.Parameter] = []
        for parameter in signature.parameters.values():
            if parameter.name == "decoding":
                parameters += _options(names, defaults)
            else:
                parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
        return run

    return decorate


def _options(names: list[str], defaults: Mapping[str, Any]) -> list[inspect.Parameter]:
    profile = typer.Option(
        metavar="NAME|FILE",
        help="Take the parameters of a profile (see `unspool profiles list`); typed ones win. "
        f"[default: {DEFAULT_PROFILE}]",
        rich_help_panel=HOW,
    )
    assignments = typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Set any decoding parameter; may be repeated. Lists are JSON: --set 'stop=[]'.",
        rich_help_panel=HOW,
    )
    options = [
        _parameter("profile", Annotated[str | None, profile]),
        _parameter("assignments", Annotated[list[str] | None, assignments]),
    ]
    common = [name for name in COMMON if name in names]
    return options + [_option(name, defaults) for name in [*common, *(n for n in names if n not in COMMON)]]


def _option(name: str, defaults: Mapping[str, Any]) -> inspect.Parameter:
    default = _DEFAULT_WORDS.get(name) or shown(defaults.get(name, DEFAULTS[name]))
    repeatable = name in TEXTS or name in IDS or name == "logit_bias"
    is_flag = name in FLAGS
    told = typer.Option(
        f"{option(name)}/--no-{option(name)[2:]}" if is_flag else option(name),
        metavar=None if is_flag else metavar(name),
        help=meaning(name)
        + (" May be repeated." if repeatable else "")
        + ("" if is_flag or repeatable else f" [default: {default}]"),
        rich_help_panel=COMMON.get(name),
        hidden=name not in COMMON,
        show_default=False,
    )
    kind: Any = bool | None if is_flag else list[str] | None if repeatable else str | None
    return _parameter(name, Annotated[kind, told])


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
