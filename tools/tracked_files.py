"""Fail when git tracks what it should not: generated files, weights, hosts of registries, machine paths."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_BYTES = 1_000_000
GENERATED = re.compile(
    r"(^|/)(__pycache__|build|dist|\.venv[^/]*|htmlcov|[^/]+\.egg-info)/"
    r"|\.(so|pyd|dylib|o|a|pyc|whl|gguf|safetensors|bin|pt|npz)$"
)
# Where packages come from is the business of the machine's own configuration, and a path of the machine
# that a file was written on is of no use on any other. (The home of "me" is an example.)
HOSTS = re.compile(
    r"\b(pypi\.org|pythonhosted\.org|download\.pytorch\.org|deb\.debian\.org|registry\.npmjs\.org|crates\.io)\b"
)
MACHINE_PATHS = re.compile(r"(?<![\w./~$}-])/(work|root|home|Users|opt)/(?!me\b)[\w.]")


def tracked(root: Path) -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True)
    return [name for name in listed.stdout.split("\0") if name and (root / name).is_file()]


def ignored_but_tracked(root: Path) -> list[str]:
    command = ["git", "ls-files", "-z", "-ci", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    return [name for name in listed.stdout.split("\0") if name]


def problems_in(name: str, content: bytes) -> list[str]:
    """What is wrong with one tracked file, one line each."""
    found = []
    if GENERATED.search(name):
        found.append(f"{name}: generated or binary; keep it out of git")
    if len(content) > MAX_BYTES:
        found.append(f"{name}: {len(content)} bytes, at most {MAX_BYTES}: record less, or build it in a test")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return found
    for number, line in enumerate(text.splitlines(), start=1):
        if match := HOSTS.search(line):
            found.append(f"{name}:{number}: names the registry host {match[0]!r}")
        if match := MACHINE_PATHS.search(line):
            found.append(f"{name}:{number}: names a path of one machine: {match[0]!r}")
    return found


def main() -> None:
    problems = [f"{name}: tracked although .gitignore lists it" for name in ignored_but_tracked(ROOT)]
    for name in tracked(ROOT):
        problems += problems_in(name, (ROOT / name).read_bytes())
    for line in problems:
        print(f"tracked files, FAILED: {line}")
    if problems:
        sys.exit(1)
    print("tracked files: clean")


if __name__ == "__main__":
    main()
