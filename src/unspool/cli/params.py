"""`unspool params`: every decoding parameter, with its default, range and meaning."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from unspool.cli.json_out import write_json
from unspool.cli.param_words import DEFAULTS, meanings, shown
from unspool.cli.table import print_table
from unspool.cli.typed import option
from unspool.errors import BadRequest, nearest
from unspool.params import RANGES


def show_params(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Parameters to show. [default: all]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Every decoding parameter: each is an option of `run` and `chat`, and a name for /set and profiles."""
    wanted = [_known(name) for name in names] if names else list(DEFAULTS)
    if as_json:
        write_json([_facts(name) for name in wanted], indent=2)
        return
    rows = [("OPTION", "DEFAULT", "MEANING")]
    rows += [(option(name), shown(DEFAULTS[name]), meanings().get(name, "")) for name in wanted]
    print_table(rows)


def _known(given: str) -> str:
    name = given.lstrip("-").replace("-", "_")
    if name not in DEFAULTS:
        raise BadRequest(
            f"there is no parameter {given!r}; {nearest(name, DEFAULTS)}", code="unknown_parameter"
        )
    return name


def _facts(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "option": option(name),
        "default": DEFAULTS[name],
        "range": str(RANGES[name]) if name in RANGES else None,
        "meaning": meanings().get(name, ""),
    }
