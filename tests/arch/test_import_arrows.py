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
    # Copied under another name: an editable install would lead the linter to the original.
    for source in [ROOT / "pyproject.toml", *(ROOT / "src").rglob("*.py")]:
        target = tmp_path / str(source.relative_to(ROOT)).replace("unspool", "copied")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source.read_text().replace("unspool", "copied"))
    (tmp_path / "src/copied/models/upward.py").write_text("import copied.engine\n")
    result = lint_imports(tmp_path)
    assert result.returncode != 0
    assert "copied.models is not allowed to import copied.engine" in result.stdout
