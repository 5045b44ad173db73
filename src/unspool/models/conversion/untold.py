"""The refusal of what GGUF has no words for."""

from __future__ import annotations

from pathlib import Path

from unspool.errors import UnsupportedModel, named


def untold(file: Path, what: str) -> UnsupportedModel:
    """`file` of the folder says what cannot be said."""
    return UnsupportedModel(
        f"{file}: {what} cannot be told in a GGUF file; load the folder itself, with "
        f"{named('weights', 'q4')} or 'q8'"
    )
