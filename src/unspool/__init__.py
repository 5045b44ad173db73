"""unspool: a decoding engine for language models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unspool.llm import LLM as LLM
    from unspool.params import DecodingParams as DecodingParams

__version__ = "0.1.0"
__all__ = ["LLM", "DecodingParams", "__version__"]

_HOME = {"LLM": "unspool.llm", "DecodingParams": "unspool.params"}


def __getattr__(name: str) -> Any:
    """Import public names on first use, so that `import unspool` costs next to nothing."""
    if name not in _HOME:
        raise AttributeError(f"module 'unspool' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
