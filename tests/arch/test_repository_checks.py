"""The scripts behind `make check` find what they are there to find."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_this_checkout_keeps_the_size_budget() -> None:
    failures, _ = script("size_budget").over_budget(ROOT)
    assert failures == []


@pytest.mark.parametrize(
    ("folder", "n_lines", "fails", "noticed"),
    [
        ("src", 300, False, False),
        ("src", 301, False, True),
        ("src", 500, False, True),
        ("src", 501, True, False),
        ("csrc", 501, True, False),
        ("tests", 800, False, True),
        ("tests", 801, True, False),
    ],
)
def test_the_budget_is_500_lines_and_800_for_tests(
    tmp_path: Path, folder: str, n_lines: int, fails: bool, noticed: bool
) -> None:
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "long.py").write_text("x = 1\n" * n_lines)
    failures, notices = script("size_budget").over_budget(tmp_path)
    assert bool(failures) == fails
    assert bool(notices) == noticed


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("src/unspool/_native.so", b"\x7fELF", "generated or binary"),
        ("tests/data/model.gguf", b"GGUF", "generated or binary"),
        ("tests/data/big.json", b" " * 1_000_001, "1000001 bytes"),
        ("docs/guide.md", b"see https://py" + b"pi.org/simple", "registry host"),
        ("bench/own.py", b"path = '/ro" + b"ot/models'", "path of one machine"),
    ],
)
def test_what_git_should_not_track_is_named(name: str, content: bytes, complaint: str) -> None:
    (problem,) = script("tracked_files").problems_in(name, content)
    assert problem.startswith(name)
    assert complaint in problem


@pytest.mark.parametrize(
    "line", [b"cd src/work/here", b"~/.cache/unspool", b"$HOME/opt/x", b"a /bin/sh line"]
)
def test_ordinary_paths_are_no_machine_paths(line: bytes) -> None:
    assert script("tracked_files").problems_in("docs/guide.md", line) == []


def test_a_tracked_file_that_is_ignored_is_named(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "run.log").write_text("x\n")
    for command in (["init", "-q"], ["add", "-f", "run.log", ".gitignore"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    checks = script("tracked_files")
    assert checks.ignored_but_tracked(tmp_path) == ["run.log"]
    assert sorted(checks.tracked(tmp_path)) == [".gitignore", "run.log"]
