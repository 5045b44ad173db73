"""Shared fixtures: real models for the tests marked `model`, and a tiny one for those that pull."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import hypothesis
import pytest

from unspool.models import catalogue
from unspool.models.catalogue import CatalogueModel, WheelPart

# Seconds are the machine's, and it may be busy: no example fails for having been slow.
hypothesis.settings.register_profile("unspool", deadline=None)
hypothesis.settings.load_profile("unspool")

# A shell that starts the tests in the background has them ignore Ctrl-C, which some are about.
signal.signal(signal.SIGINT, signal.default_int_handler)

FAKE_PIP = Path(__file__).parent / "tools" / "fake_pip.py"


@pytest.fixture(scope="session")
def model_path() -> Callable[[str], Path]:
    """Path of a catalogue model by name; use it in tests marked `model`.

    UNSPOOL_TEST_MODELS may name a folder of NAME.gguf files; otherwise the model comes from the cache
    and is pulled once when it is not there.
    """
    folder = os.environ.get("UNSPOOL_TEST_MODELS")

    def path_of(name: str) -> Path:
        catalogue.lookup(name)
        if not folder:
            return catalogue.resolve(name)
        path = Path(folder) / f"{name}.gguf"
        if not path.is_file():
            pytest.fail(f"UNSPOOL_TEST_MODELS is {folder!r}, which has no {path.name}")
        return path

    return path_of


@dataclass(frozen=True)
class TinyModel:
    """A catalogue model of a few kilobytes, its wheels in a folder, and the fake pip that serves them."""

    model: CatalogueModel
    content: bytes
    wheels: Path
    calls: Path  # one line for each time the fake pip was run
    cache: Path
    downloader: tuple[str, ...] = (sys.executable, "-S", "-E", str(FAKE_PIP))

    def asked_for(self) -> list[str]:
        return self.calls.read_text().split() if self.calls.exists() else []

    def wheel_of(self, index: int) -> Path:
        part = self.model.parts[index]
        return self.wheels / f"{part.project.replace('-', '_')}-{part.version}-py3-none-any.whl"

    @property
    def file(self) -> Path:
        return self.cache / "models" / self.model.name / f"{self.model.name}.gguf"


def write_wheel(path: Path, members: dict[str, bytes]) -> None:
    """A wheel that pip accepts."""
    project, version = path.name.split("-")[:2]
    info = f"{project}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {project.replace('_', '-')}\nVersion: {version}\n"
    tags = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(f"{info}/WHEEL", tags)
        archive.writestr(f"{info}/RECORD", "")


@pytest.fixture
def tiny_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TinyModel:
    """Eleven parts, so that numeric and alphabetic order differ; the catalogue knows it, pip is faked."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    pieces = [hashlib.shake_256(bytes([i])).digest(1200 + 32 * i) for i in range(1, 12)]
    parts = []
    for i, piece in enumerate(pieces, start=1):
        path = wheels / f"tiny_part{i}-1.0-py3-none-any.whl"
        member = f"tiny_part{i}/data/part{i:02d}.bin"
        write_wheel(path, {f"tiny_part{i}/__init__.py": b"", member: piece})
        parts.append(WheelPart(f"tiny-part{i}", "1.0", member, path.stat().st_size, len(piece)))
    content = b"".join(pieces)
    model = CatalogueModel(
        name="tiny",
        description="made by the tests",
        licence="none",
        architecture="llama",
        has_chat_template=False,
        sha256=hashlib.sha256(content).hexdigest(),
        n_bytes=len(content),
        vocabulary="tiny",
        parts=tuple(parts),
    )
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FAKE_PIP_WHEELS", str(wheels))
    monkeypatch.setenv("FAKE_PIP_LOG", str(tmp_path / "calls"))
    monkeypatch.setattr(catalogue, "CATALOGUE", MappingProxyType(dict(catalogue.CATALOGUE) | {"tiny": model}))
    return TinyModel(model, content, wheels, tmp_path / "calls", tmp_path / "cache")
