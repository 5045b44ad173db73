"""One door to weights, whatever their format: what a path holds is read from its bytes, not its name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from unspool.errors import ModelFileError
from unspool.models.weights.foreign_files import HEAD_BYTES, refuse_foreign
from unspool.models.weights.gguf import MAGIC, GgufSource
from unspool.models.weights.mapped_file import map_file

if TYPE_CHECKING:
    from unspool.models.weights.safetensors_source import SafetensorsSource


def open_weights(path: str | Path) -> GgufSource | SafetensorsSource:
    """Open a GGUF file, a Hugging Face folder with safetensors weights, or a .safetensors file of one.

    Raises ModelNotFound when there is nothing at the path, ModelFileError when a file is corrupt or is a
    kind of file that is never opened (a pickle), UnsupportedModel when it is sound but holds something
    that unspool does not read. The source is a `WeightSource` and a context manager.
    """
    path = Path(path)
    if not os.path.isdir(path):  # false, not an error, for a path that no file system could hold
        head = map_file(path)[:HEAD_BYTES]
        if head.startswith(MAGIC):
            return GgufSource(path)
        refuse_foreign(path, head)
        if path.suffix != ".safetensors":
            raise ModelFileError(
                path,
                "magic",
                f"starts with {head[:4]!r}, expected {MAGIC!r}; give a GGUF file or a safetensors folder",
            )
    from unspool.models.weights.safetensors_source import SafetensorsSource

    return SafetensorsSource(path)
