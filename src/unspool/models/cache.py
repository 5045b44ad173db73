"""The cache folder: where pulled models live, how they are known to be whole, and who may write.

    CACHE/models/NAME/NAME.gguf         whole, or not there: it only ever appears by an atomic rename
    CACHE/models/NAME/verified.json     size, time and SHA-256 of the file when it was last hashed
    CACHE/models/NAME/.staging/         a pull in progress, owned by whoever holds the lock
    CACHE/locks/NAME.lock               held by the process that pulls or removes NAME; never deleted

The lock is the kernel's (flock), so a process that dies lets go of it and no lock is ever stale.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal

from unspool.errors import DownloadError
from unspool.light_dataclass import dataclass

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

CHUNK_BYTES = 1 << 20
_LOCK_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class PullStatus:
    """How far a pull has come; `detail` says what is being done in words."""

    phase: Literal["waiting", "downloading", "checking", "done"]
    n_done_bytes: int
    n_total_bytes: int
    detail: str = ""


Progress = Callable[[PullStatus], None]


@dataclass(frozen=True, slots=True)
class ModelPaths:
    """Every path that belongs to one model of the catalogue."""

    folder: Path
    file: Path
    stamp: Path
    staging: Path
    lock: Path


def cache_dir() -> Path:
    """UNSPOOL_CACHE, or the platform's folder for caches (XDG_CACHE_HOME where it is set)."""
    try:
        return _cache_dir()
    except RuntimeError as error:  # no HOME, and a user whom the system does not know
        raise DownloadError(
            "there is no home folder to keep models in; set UNSPOOL_CACHE to a folder that can be written",
            code="cache",
        ) from error


def _cache_dir() -> Path:
    if chosen := os.environ.get("UNSPOOL_CACHE"):
        return Path(chosen).expanduser()
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg).expanduser() / "unspool"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "unspool" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "unspool"
    return Path.home() / ".cache" / "unspool"


def paths(name: str) -> ModelPaths:
    root = cache_dir()
    folder = root / "models" / name
    return ModelPaths(
        folder=folder,
        file=folder / f"{name}.gguf",
        stamp=folder / "verified.json",
        staging=folder / ".staging",
        lock=root / "locks" / f"{name}.lock",
    )


def is_installed(name: str) -> bool:
    return paths(name).file.is_file()


def verified_file(name: str, n_bytes: int, sha256: str) -> Path | None:
    """The model's file if it is there and is what the catalogue says, None if it is not there.

    Hashing a gigabyte at every start would be slow, so the outcome is kept beside the file together
    with its size and time of change, and the file is hashed again only when one of them differs.
    A file that differs from the catalogue raises DownloadError and stays for its owner to look at.
    """
    where = paths(name)
    try:
        stat = where.file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    seen = {"n_bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns, "sha256": sha256}
    if stat.st_size == n_bytes and _read_stamp(where.stamp) == seen:
        return where.file
    wrong = ""
    if stat.st_size != n_bytes:
        wrong = f"it has {stat.st_size} bytes and should have {n_bytes}"
    elif (got := sha256_of(where.file)) != sha256:
        wrong = f"its SHA-256 is {got} and should be {sha256}"
    if wrong:
        raise DownloadError(
            f"{where.file} is damaged: {wrong}; `unspool models pull {name}` fetches it again",
            code="wrong_sha256",
        )
    write_stamp(where, sha256)
    return where.file


def write_stamp(where: ModelPaths, sha256: str) -> None:
    """Remember that the file has been hashed. A cache one may not write to works too, only slower."""
    stat = where.file.stat()
    seen = {"n_bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns, "sha256": sha256}
    fresh = where.stamp.with_name(f".{where.stamp.name}.new")
    try:
        fresh.write_text(json.dumps(seen) + "\n", encoding="utf-8")
        os.replace(fresh, where.stamp)
    except OSError:
        fresh.unlink(missing_ok=True)


def _read_stamp(stamp: Path) -> object:
    try:
        return json.loads(stamp.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None  # unreadable is the same as never hashed


def sha256_of(path: Path) -> str:
    from hashlib import sha256

    digest = sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def remove(name: str) -> int:
    """Delete a pulled model and whatever a broken pull left; returns the bytes freed."""
    from shutil import rmtree

    where = paths(name)
    if not where.folder.exists():
        return 0
    with locked(name):
        try:
            freed = sum(p.stat().st_size for p in where.folder.rglob("*") if p.is_file())
            # The model goes first and in one step, so that no reader meets half a folder.
            where.file.unlink(missing_ok=True)
            rmtree(where.folder)
        except OSError as error:
            raise unwritable(where.folder, error) from error
        return freed


@contextmanager
def locked(name: str, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the model's lock; `on_wait` is called once when another process has it."""
    path = paths(name).lock
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    except OSError as error:
        raise unwritable(path, error) from error
    with file:
        waiting = False
        while not _try_lock(file):
            if not waiting and on_wait is not None:
                on_wait()
            waiting = True
            time.sleep(_LOCK_POLL_S)
        try:
            yield
        finally:
            _unlock(file)


def unwritable(path: Path, error: OSError) -> DownloadError:
    return DownloadError(
        f"cannot write {path}: {error.strerror or error}; free some space or set UNSPOOL_CACHE to a folder "
        "that can be written",
        code="cache",
    )


if sys.platform == "win32":

    def _try_lock(file: BinaryIO) -> bool:
        try:
            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(file: BinaryIO) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)

else:

    def _try_lock(file: BinaryIO) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise DownloadError(
                f"cannot lock {file.name}: {error.strerror}; set UNSPOOL_CACHE to a folder on a local disk",
                code="cache",
            ) from error
        return True

    def _unlock(file: BinaryIO) -> None:
        fcntl.flock(file, fcntl.LOCK_UN)
