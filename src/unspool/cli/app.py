"""The commands as one program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from unspool.cli import (
    bench,
    best,
    border,
    chat,
    evaluate,
    explain,
    kv,
    models,
    params,
    profiles,
    quantize,
    run,
)
from unspool.cli.json_out import Ending

app = typer.Typer(
    name="unspool",
    help="Decode language models on your own CPU: exact, visible, complete, fast.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(run.run)
app.command("explain")(explain.explain)
app.command("best")(best.best)
app.command("chat")(chat.chat)
app.add_typer(evaluate.app, name="eval")
app.command("bench")(bench.bench)
app.command("kv")(kv.show_kv)
app.add_typer(models.app, name="models")
app.command("quantize")(quantize.quantize)
app.add_typer(profiles.app, name="profiles")
app.command("params")(params.show_params)

# typer keeps its own copy of click in newer releases; the class is found through what typer exports.
_USAGE_ERROR: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", "-V", help="Print the version and leave."),
) -> None:
    if version:
        from unspool import __version__

        print(f"unspool {__version__}")
        raise typer.Exit


def run_command(arguments: Sequence[str]) -> int:
    command, ending = typer.main.get_command(app), Ending.of(arguments)

    def work() -> object:
        try:
            return command.main(list(arguments), prog_name="unspool", standalone_mode=False)
        except _USAGE_ERROR as error:
            where = _command_path(command, arguments)
            message = _about_option(error, where, command) or _usage_line(error, where)
            return border.fail(message, error.exit_code, "usage", ending)
        except typer.Abort:
            return border.INTERRUPTED

    return border.run(work, ending)


def _command_path(command: Any, arguments: Sequence[str]) -> str:
    """The command whose help is wanted: the words up to the first that is no command's name."""
    path = "unspool"
    for word in arguments:
        command = getattr(command, "commands", {}).get(word)
        if command is None:
            break
        path += f" {word}"
    return path


def _about_option(error: Any, where: str, command: Any) -> str | None:
    """What there is to say of an option that is not there; None where it is of no name that is known."""
    # An option that lacks its value has a name too, and only what is not there has others that are near.
    if not (hasattr(error, "possibilities") and hasattr(error, "option_name")):
        return None
    from unspool.cli.unknown_options import said_of

    return said_of(error.option_name, where, command)


def _usage_line(error: Any, where: str) -> str:
    message = error.format_message().strip()
    if not message:  # help was already printed because no command was given
        message = "no command given"
    if "unexpected extra argument" in message and where == "unspool run":
        message = f"{message}; put a prompt of several words in quotes"
    return f"{message.rstrip('.')}; see `{where} --help`"
