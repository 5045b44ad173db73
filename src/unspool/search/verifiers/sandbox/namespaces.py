"""Namespaces: processes, network, mounts and shared memory of the sandbox's own.

Root makes them; so does everybody where the system permits user namespaces.
"""

from __future__ import annotations

import ctypes
import os
from typing import Final

from unspool.search.verifiers.sandbox.libc import checked, libc, mount, syscall

_NEWNS, _NEWUTS, _NEWIPC = 0x00020000, 0x04000000, 0x08000000
_NEWUSER, _NEWPID, _NEWNET = 0x10000000, 0x20000000, 0x40000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC, _MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
_MOUNT_SETATTR: Final = 442
_AT_RECURSIVE: Final = 0x8000


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("user_ns_fd", ctypes.c_uint64),
    )


def leave() -> None:  # pragma: no cover - in another process
    """Leave the caller's namespaces; the next process forked is the first of its own. Raises OSError."""
    uid, gid = os.geteuid(), os.getegid()
    apart = _NEWNS | _NEWUTS | _NEWIPC | _NEWPID | _NEWNET
    if uid == 0:
        checked(libc().unshare(apart), "unshare")
        return
    checked(libc().unshare(apart | _NEWUSER), "unshare")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def furnish(work: str, *, n_bytes: int, n_files: int) -> None:  # pragma: no cover - in another process
    """A file system of its own for what is written, and none of the system's processes to be seen."""
    mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    # Of tmpfs a page for each file and folder on top of what they hold, and itself.
    size = n_bytes + 4096 * (n_files + 2)
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    mount("tmpfs", work, "tmpfs", flags, f"size={size},nr_inodes={n_files + 1},mode=0777")
    mount("tmpfs", "/proc", "tmpfs", flags, "size=4096,nr_inodes=1,mode=0555")


def show(folder: str, at: str) -> None:  # pragma: no cover - in another process
    """Make a folder readable at another path, whoever may pass through the folders above it."""
    mount(folder, at, None, _MS_BIND | _MS_REC)
    attributes = _MountAttributes(1 | _MS_NOSUID | _MS_NODEV, 0, 0, 0)  # 1: read only
    syscall(
        _MOUNT_SETATTR,
        -100,
        ctypes.c_char_p(os.fsencode(at)),
        _AT_RECURSIVE,
        ctypes.byref(attributes),
        ctypes.sizeof(attributes),
    )
