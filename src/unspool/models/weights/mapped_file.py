"""Files seen as memory: nothing is read until it is used, and nothing is copied.

A mapping lives as long as its last view (an array made with `np.frombuffer`), so closing a source
means dropping references: arrays handed out earlier stay valid, and the pages go back to the system
with the last of them.
"""

from __future__ import annotations

import mmap
import stat
from pathlib import Path

from unspool.errors import ModelFileError, ModelNotFound


def map_file(path: Path) -> mmap.mmap:
    """A read-only mapping of the whole file. A pipe, device or empty file is refused, not waited for."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ModelFileError(path, "file", "is not a regular file; give the path of a weights file")
        if status.st_size == 0:
            raise ModelFileError(path, "file", "is empty; delete it and fetch the model again")
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise ModelNotFound(f"no file at {path}; check the path") from None
    except (OSError, ValueError) as problem:  # ValueError: the file shrank to nothing, a NUL in the path
        raise ModelFileError(path, "file", f"cannot be opened: {problem}") from problem


def shown(name: str, limit: int = 80) -> str:
    """A name from a file, safe to print on one line: control characters escaped, length bounded."""
    text = name if name.isprintable() else ascii(name)[1:-1]
    return text if len(text) <= limit else f"{text[:limit]}..."
