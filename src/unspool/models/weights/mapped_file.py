"""Files seen as memory: nothing is read until it is used, and nothing is copied.

A mapping lives as long as its last view (an array made with `np.frombuffer`), so closing a source
means dropping references: arrays handed out earlier stay valid, and the pages go back to the system
with the last of them.
"""

from __future__ import annotations

import mmap
import stat
from pathlib import Path

import numpy as np
import numpy.typing as npt

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


def mapping_of(data: npt.NDArray[np.uint8]) -> mmap.mmap | None:
    """The mapping that the data is a view of."""
    base: object = data
    while isinstance(base, np.ndarray):
        base = base.base
    mapping = base.obj if isinstance(base, memoryview) else base
    return mapping if isinstance(mapping, mmap.mmap) else None


def release_pages(data: npt.NDArray[np.uint8]) -> None:
    """Let the system drop the memory of a view of a mapped file; reading it again maps it again.

    Only whole pages inside the view are dropped. Data that is no view of a mapping is left alone.
    """
    mapping = mapping_of(data)
    if mapping is None or not hasattr(mapping, "madvise"):
        return
    start = data.ctypes.data - np.frombuffer(mapping, np.uint8).ctypes.data
    first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    last = (start + data.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if last > first:
        mapping.madvise(mmap.MADV_DONTNEED, first, last - first)
