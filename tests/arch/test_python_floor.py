"""Every source file parses on the oldest Python that pyproject.toml names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
FLOOR = (3, 10)


def test_the_floor_is_the_one_pyproject_names() -> None:
    match = re.search(r'requires-python = ">=(\d+)\.(\d+)"', (ROOT / "pyproject.toml").read_text())
    assert match is not None
    assert (int(match[1]), int(match[2])) == FLOOR


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_source_parses_on_the_oldest_python(path: Path) -> None:
    assert isinstance(ast.parse(path.read_text(encoding="utf-8"), feature_version=FLOOR), ast.Module)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_source_is_empty_or_says_in_its_docstring_what_it_is(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text == "" or ast.get_docstring(ast.parse(text))
