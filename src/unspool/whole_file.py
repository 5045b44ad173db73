"""Files that appear under their name when they are whole, or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def folder_problem(path: Path) -> str:
    """What is wrong with the folder of a file that is to be written, or "".

    No folder is ever made: a name that was mistyped would leave its answers where nobody looks for them.
    """
    return "" if os.path.isdir(path.parent) else f"there is no folder {path.parent}"


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file beside `path` to write to. When the block ends it is flushed to the disk and takes the name.

    OSError where the disk or the folder does not take it, or is not there; ValueError where `path` cannot
    be a name, or is a device, a pipe or a folder, whose place a file would take.
    """
    if problem := folder_problem(path):
        raise FileNotFoundError(errno.ENOENT, problem)
    if path.exists() and not path.is_file():
        raise ValueError("it is no regular file")
    temporary = None
    try:
        with tempfile.NamedTemporaryFile("wb", dir=path.parent, prefix=".unspool-", delete=False) as file:
            temporary = Path(file.name)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:  # Ctrl-C too leaves no half file
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise
