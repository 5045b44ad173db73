"""The facts of a model, for `unspool models show`: read from the file, not from a table."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unspool.errors import UnspoolError

if TYPE_CHECKING:
    from unspool.models.weights.base import WeightSource


def describe(spec: str) -> dict[str, Any]:
    """What is known about a name, a file or a folder. A name that is not installed has fewer facts."""
    from unspool.models import cache, catalogue

    facts: dict[str, Any] = {}
    known = catalogue.CATALOGUE.get(spec)
    if known is not None:
        facts |= {
            "name": known.name,
            "description": known.description,
            "licence": known.licence,
            "installed": cache.is_installed(known.name),
        }
        if not facts["installed"]:
            return facts | {
                "architecture": known.architecture,
                "chat_template": known.has_chat_template,
                "size_bytes": known.n_bytes,
                "download_bytes": known.download_bytes,
                "sha256": known.sha256,
            }
    path = catalogue.resolve(spec, pull=False)
    facts["path"] = str(path)
    facts |= _read(path)
    # A catalogue file was hashed when it was pulled, and again by `resolve` if it has changed since.
    facts["sha256"] = known.sha256 if known is not None else _hashes(path)
    return facts


def _read(path: Path) -> dict[str, Any]:
    from unspool.models.chat_sources import template_sources
    from unspool.models.weights.open import open_weights

    source = open_weights(path)
    try:
        tensors = [source.tensor(name) for name in source.names()]
        return {
            "format": source.format,
            "architecture": _architecture(source),
            "parameters": sum(math.prod(tensor.shape) for tensor in tensors),
            "context_length": _context_length(source),
            "tensors": len(tensors),
            "encodings": dict(Counter(tensor.encoding.label for tensor in tensors).most_common()),
            "step_weight_bytes": _step_bytes(source),
            "chat_template": bool(template_sources(source)),
            "size_bytes": sum(file.stat().st_size for file in _weight_files(path)),
        }
    finally:
        close = source.close
        del tensors, source  # the views of the mapped file go before the mapping
        close()


def _architecture(source: WeightSource) -> str | None:
    found = source.metadata.get("general.architecture", source.metadata.get("model_type"))
    return None if found is None else str(found)


def _context_length(source: WeightSource) -> int | None:
    metadata = source.metadata
    key = f"{_architecture(source)}.context_length" if source.format == "gguf" else "max_position_embeddings"
    found = metadata.get(key)
    return found if isinstance(found, int) else None


def _step_bytes(source: WeightSource) -> dict[str, int] | None:
    """What a step reads of the weights, as they lie in the file and as they are loaded; None for a network
    that is not computed here."""
    from unspool.models.architectures import build_graph
    from unspool.models.config import read_config
    from unspool.runners.packed_size import step_bytes

    try:
        return step_bytes(build_graph(read_config(source), source), source)._asdict()
    except UnspoolError:
        return None


def _weight_files(path: Path) -> list[Path]:
    return sorted(path.glob("*.safetensors")) if path.is_dir() else [path]


def _hashes(path: Path) -> str | dict[str, str]:
    from unspool.models.cache import sha256_of

    if path.is_dir():
        return {file.name: sha256_of(file) for file in _weight_files(path)}
    return sha256_of(path)
