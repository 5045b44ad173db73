"""A model that is on this machine: what it was asked for by, and where it is."""

from __future__ import annotations

from pathlib import Path

from unspool.light_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Found:
    name: str  # for messages
    path: Path
