"""Fail when a source file outgrows its budget; name those that come close.

A file of more than 300 lines usually holds two ideas; over the limit the check fails. Limits in lines:
500 for src, csrc, bench and tools, 800 for tests.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOTICE = 300
LIMITS = {"src": 500, "csrc": 500, "bench": 500, "tools": 500, "tests": 800}
SUFFIXES = {".py", ".pyi", ".cpp", ".h", ".sh"}


def line_counts(root: Path, folder: str) -> dict[Path, int]:
    """Lines of every source file below root/folder."""
    files = (path for path in sorted((root / folder).rglob("*")) if path.suffix in SUFFIXES)
    return {path: len(path.read_text(encoding="utf-8").splitlines()) for path in files}


def over_budget(root: Path) -> tuple[list[str], list[str]]:
    """(failures, notices), one line each."""
    failures, notices = [], []
    for folder, limit in LIMITS.items():
        for path, n_lines in line_counts(root, folder).items():
            line = f"{path.relative_to(root)}: {n_lines} lines"
            if n_lines > limit:
                failures.append(f"{line}, the limit is {limit}: split it by ideas")
            elif n_lines > NOTICE:
                notices.append(line)
    return failures, notices


def main() -> None:
    failures, notices = over_budget(ROOT)
    for line in notices:
        print(f"size budget, notice: {line}")
    for line in failures:
        print(f"size budget, FAILED: {line}")
    if failures:
        sys.exit(1)
    print("size budget: kept")


if __name__ == "__main__":
    main()
