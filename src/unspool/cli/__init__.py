"""The command line. `main` is what the `unspool` script calls."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 1, 2 for a bad request, 130 after Ctrl-C."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if given in (["--version"], ["-V"]):  # answered before anything that takes time is imported
            from unspool import __version__
            from unspool.cli import border

            return border.run(lambda: print(f"unspool {__version__}"))
        if given[:1] == ["run"]:
            from unspool.cli import plain

            if (understood := plain.read(given[1:])) is not None:
                return plain.run(understood, given)
        from unspool.cli.app import run_command

        return run_command(given)
    except KeyboardInterrupt:  # so early that nothing has begun
        from unspool.cli.json_out import Ending

        if (ending := Ending.of(given)) is not None:
            ending.interrupted()
        return 130
