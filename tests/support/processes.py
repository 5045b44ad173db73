"""Python programs in a process of their own, for what a test must not do in its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from unspool.errors import UnspoolError

# Python warns of forks beside threads, which such programs are about. Where this process does not look for
# installed packages, one that it starts does not either.
_OPTIONS = ["-W", "ignore:This process:DeprecationWarning", *["-S"][: sys.flags.no_site]]


def in_a_process(program: str) -> str:
    """What a program prints, which finds this folder; it may print no error and no warning."""
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, *_OPTIONS, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def code_of(ask: Callable[[], object]) -> str | None:
    """For such a program: the code of what it is refused with; None where it is not."""
    try:
        ask()
    except UnspoolError as problem:
        return problem.code
    return None
