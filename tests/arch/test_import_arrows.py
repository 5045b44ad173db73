"""The layers of the package: arrows point down only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the contracts of pyproject.toml in `folder` against the package under folder/src."""
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    environment = os.environ | {"PYTHONPATH": str(folder / "src")}
    return subprocess.run(
        [sys.executable, "-c", program, "--no-logo", "--no-cache"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_import_contract_is_kept() -> None:
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_an_arrow_that_points_up_is_reported(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    for source in (ROOT / "src").rglob("*.py"):
        target = tmp_path / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source.read_text())
    (tmp_path / "src/unspool/models/upward.py").write_text("import unspool.engine\n")
    result = lint_imports(tmp_path)
    assert result.returncode != 0
    assert "unspool.models is not allowed to import unspool.engine" in result.stdout
