"""How much memory there is: the machine's, or less where a container is given less (cgroups 1 and 2)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

_ROOT = Path("/")


def total_bytes(root: Path = _ROOT) -> int | None:
    """Memory that this process may come to hold; None where the system does not say."""
    known = [limit for limit, _ in _cgroup_limits(root)]
    with suppress(AttributeError, OSError, ValueError):  # not on Windows
        known.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(known, default=None)


def free_bytes(root: Path = _ROOT) -> int | None:
    """Memory that nothing needs just now, caches of files not counted as need; None where the system does
    not say."""
    known = [max(limit - used, 0) for limit, used in _cgroup_limits(root)]
    available = _fields(root / "proc/meminfo").get("MemAvailable:")
    if available is not None:
        known.append(1024 * available)  # written in kB, and meant in KiB
    return min(known, default=None)


def _cgroup_limits(root: Path) -> Iterator[tuple[int, int]]:
    """(limit, used) of each group with a limit that the process is in, from its own up to the root."""
    for folder, limit_file, used_file, cache_field in _memory_folders(root):
        limit = _number(folder / limit_file)
        if limit is not None and limit < 1 << 60:  # version 1 writes "none" as a number past all memory
            cache = _fields(folder / "memory.stat").get(cache_field, 0)  # of files: given back when asked for
            yield limit, max((_number(folder / used_file) or 0) - cache, 0)


def _memory_folders(root: Path) -> Iterator[tuple[Path, str, str, str]]:
    """Each group's folder, and what its files and the field of its file cache are called."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if controllers == "":
            base, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            base = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        inside = PurePosixPath(group.lstrip("/"))
        # A container may see its own group as the root, and name it by a path that it cannot see.
        own = base if ".." in inside.parts or not (base / inside).is_dir() else base / inside
        while True:
            yield own, *names
            if own == base:
                break
            own = own.parent


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    """The number that a file holds; None for "max" and for a file that is not there."""
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None


def _fields(path: Path) -> dict[str, int]:
    """The names and numbers of a file with lines of NAME NUMBER."""
    words = (line.split() for line in _text(path).splitlines())
    return {line[0]: int(line[1]) for line in words if len(line) > 1 and line[1].isdecimal()}
