from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def config_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the user's profiles would lie: empty, whoever runs the tests."""
    monkeypatch.setenv("UNSPOOL_CONFIG", str(tmp_path / "config"))
    return tmp_path / "config" / "profiles"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a profile and return its path."""

    def write(content: str | bytes, name: str = "mine.toml") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write
