"""The commands as one program, and the border where every error becomes one line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import typer

from unspool.cli import bench, best, chat, evaluate, explain, kv, models, params, profiles, quantize, run
from unspool.errors import UnspoolError

INTERRUPTED = 130  # 128 + SIGINT, as shells count
OUTPUT_LOST = 1  # as click has it for a broken pipe when it notices first

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
    if sys.stderr is None:  # closed by whoever started us; errors still have their exit codes
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for the life of the process
    if sys.stdout is None:
        return _fail("standard output is closed; send it to a file, or to /dev/null", OUTPUT_LOST)
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets an escape instead of a traceback.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    command = typer.main.get_command(app)
    try:
        exit_code = command.main(list(arguments), prog_name="unspool", standalone_mode=False)
        sys.stdout.flush()
    except UnspoolError as error:
        return _fail(str(error), error.exit_code)
    except _USAGE_ERROR as error:
        return _fail(_usage_line(error, _command_path(command, arguments)), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except SystemExit as leave:
        return leave.code if isinstance(leave.code, int) else 1
    except BrokenPipeError:
        _silence(sys.stdout)
        return OUTPUT_LOST
    except OSError as error:  # a full disk behind standard output, for one
        _silence(sys.stdout)
        where = f" ({error.filename})" if error.filename else ""
        return _fail(f"{error.strerror or error}{where}; check the disk and where output goes", OUTPUT_LOST)
    except MemoryError:
        return _fail("out of memory; close other programs, or take a smaller model or --context", 1)
    return exit_code if isinstance(exit_code, int) else 0


def _silence(stream: Any) -> None:
    """What is left in the buffer goes nowhere: the interpreter would fail on it once more at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except OSError:
        stream.close = stream.flush = lambda: None  # no descriptor of its own: a test's, for one


def _fail(message: str, exit_code: int) -> int:
    try:
        print(f"error: {' '.join(message.split())}", file=sys.stderr, flush=True)
    except OSError:
        _silence(sys.stderr)
    return exit_code


def _command_path(command: Any, arguments: Sequence[str]) -> str:
    """The command whose help is wanted: the words up to the first that is no command's name."""
    path = "unspool"
    for word in arguments:
        command = getattr(command, "commands", {}).get(word)
        if command is None:
            break
        path += f" {word}"
    return path


def _usage_line(error: Any, where: str) -> str:
    message = error.format_message().strip()
    if not message:  # help was already printed because no command was given
        message = "no command given"
    if "unexpected extra argument" in message and where == "unspool run":
        message = f"{message}; put a prompt of several words in quotes"
    return f"{message.rstrip('.')}; see `{where} --help`"
