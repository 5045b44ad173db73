"""The border of the command line, where every error becomes one line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from unspool.cli.names import as_typed
from unspool.errors import UnspoolError

if TYPE_CHECKING:
    from unspool.cli.json_out import Ending

INTERRUPTED: Final = 130  # 128 + SIGINT, as shells count
OUTPUT_LOST: Final = 1  # as click has it for a broken pipe when it notices first


def run(work: Callable[[], object], ending: Ending | None = None) -> int:
    """Do the work of a command; its exit code, which is 0 where the work gives no number. `ending` is what is
    printed where JSON was asked for and the work prints none."""
    if sys.stderr is None:  # closed by whoever started us; errors still have their exit codes
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for the life of the process
    if sys.stdout is None:
        return fail("standard output is closed; send it to a file, or to /dev/null", OUTPUT_LOST)
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets an escape instead of a traceback.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        exit_code = work()
        if exit_code == INTERRUPTED and ending is not None:  # typer has caught it, and gives the number
            ending.interrupted()
        sys.stdout.flush()
    except UnspoolError as error:
        return fail(as_typed(error), error.exit_code, error.code, ending)
    except KeyboardInterrupt:
        if ending is not None:
            ending.interrupted()
        return INTERRUPTED
    except SystemExit as leave:
        return leave.code if isinstance(leave.code, int) else 1
    except BrokenPipeError:
        _silence(sys.stdout)
        return OUTPUT_LOST
    except OSError as error:  # a full disk behind standard output, for one
        where = f" ({error.filename})" if error.filename else ""
        problem = f"{error.strerror or error}{where}; check the disk and where output goes"
        exit_code = fail(problem, OUTPUT_LOST, "output", ending)
        _silence(sys.stdout)
        return exit_code
    except MemoryError:
        problem = "out of memory; close other programs, or take a smaller model or --context"
        return fail(problem, 1, "out_of_memory", ending)
    return exit_code if isinstance(exit_code, int) else 0


def fail(message: str, exit_code: int, code: str = "error", ending: Ending | None = None) -> int:
    """Tell what went wrong, as JSON too where that was asked for; the exit code."""
    line = " ".join(message.split())
    if ending is not None:
        ending.failed(code, line)
    try:
        print(f"error: {line}", file=sys.stderr, flush=True)
    except OSError:
        _silence(sys.stderr)
    return exit_code


def _silence(stream: Any) -> None:
    """What is left in the buffer goes nowhere: the interpreter would fail on it once more at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except OSError:
        stream.close = stream.flush = lambda: None  # no descriptor of its own: a test's, for one
