"""`unspool models`: what there is, fetch it, look at it, delete it."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from unspool.cli.json_out import write_json
from unspool.cli.table import print_table
from unspool.errors import BadRequest, ModelNotFound

app = typer.Typer(help="List, pull, show and remove models.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@app.command("list")
def list_models(as_json: AsJson = False) -> None:
    """The catalogue: size, licence, and what is installed."""
    from unspool.models import cache
    from unspool.models.catalogue import CATALOGUE, DEFAULT_MODEL

    rows: list[dict[str, Any]] = [
        {
            "name": model.name,
            "default": model.name == DEFAULT_MODEL,
            "size_bytes": model.n_bytes,
            "licence": model.licence,
            "installed": cache.is_installed(model.name),
            "architecture": model.architecture,
            "chat_template": model.has_chat_template,
            "description": model.description,
        }
        for model in CATALOGUE.values()
    ]
    if as_json:
        write_json(rows, indent=2)
        return
    table = [("NAME", "SIZE", "LICENCE", "INSTALLED", "WHAT")]
    for row in rows:
        name = f"{row['name']} (default)" if row["default"] else str(row["name"])
        installed = "yes" if row["installed"] else "no"
        table.append(
            (name, _size(int(row["size_bytes"])), str(row["licence"]), installed, str(row["description"]))
        )
    print_table(table)


@app.command("pull")
def pull(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME", help="Catalogue names, or hf:org/repo[/file].")
    ],
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Fetch models into the cache, or check those that are there and mend them."""
    from unspool.cli.progress import pull_progress
    from unspool.models import catalogue
    from unspool.models.pull import pull_model

    wanted = [None if name.startswith("hf:") else catalogue.lookup(name) for name in names]
    for name, model in zip(names, wanted, strict=True):
        if model is None:
            path = catalogue.resolve(name)
        else:
            with pull_progress(name, quiet=quiet) as progress:
                path = pull_model(model, progress=progress)
        print(path)


@app.command("show")
def show(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A catalogue name, or a path.")],
    as_json: AsJson = False,
) -> None:
    """What a model is: architecture, parameters, context, encodings, chat template, SHA-256."""
    from unspool.cli.describe import describe

    facts = describe(model)
    if as_json:
        write_json(facts, indent=2)
        return
    print_table([(_label(name), _shown(name, value)) for name, value in facts.items()])


@app.command("remove")
def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A catalogue name.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a pulled model from the cache."""
    from unspool.models import cache
    from unspool.models.catalogue import lookup

    lookup(name)
    folder = cache.paths(name).folder
    if not folder.exists():
        raise ModelNotFound(f"{name} is not installed; `unspool models list` shows what is")
    if not yes:
        if not sys.stdin.isatty():
            raise BadRequest(f"removing {name} needs a yes, and there is no terminal to ask on; add --yes")
        if input(f"Delete {folder}? [y/N] ").strip().lower() not in ("y", "yes"):
            print("kept")
            return
    print(f"removed {name}, {_size(cache.remove(name))} freed")


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.2f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.0f} MB"


def _label(name: str) -> str:
    return name.removesuffix("_bytes").replace("_", " ")  # the value names its unit


def _shown(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_shown(name, inner)}" for key, inner in value.items())
    if isinstance(value, int):
        return f"{_size(value)} ({value:,} bytes)" if name.endswith("bytes") else f"{value:,}"
    return "unknown" if value is None else str(value)
