"""One door to weights, whatever their format: what a path holds is read from its bytes, not its name."""

from __future__ import annotations

from pathlib import Path

from unspool.errors import ModelFileError, ModelNotFound
from unspool.models.weights.base import WeightSource
from unspool.models.weights.gguf import MAGIC, GgufSource


def open_weights(path: str | Path) -> WeightSource:
    """Open a GGUF file."""
    path = Path(path)
    if not path.exists():
        raise ModelNotFound(f"no file or folder at {path}; check the path")
    with path.open("rb") as file:
        head = file.read(4)
    if head == MAGIC:
        return GgufSource(path)
    raise ModelFileError(path, "magic", f"is {head!r}, expected {MAGIC!r}; give a GGUF file")
