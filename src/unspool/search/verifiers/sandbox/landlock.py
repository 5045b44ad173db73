"""Landlock: which files this process may read, and which it may write (kernel 5.13 or later)."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from typing import Final

from unspool.search.verifiers.sandbox.libc import PR_SET_NO_NEW_PRIVS, libc, prctl, syscall

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same on all machines
_READ: Final = 1 << 2 | 1 << 3  # files, folders
_WRITE_FILE: Final = 1 << 1
# Remove folders and files; make folders, regular files and symbolic links; no devices, sockets or pipes.
_CHANGE: Final = 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 12
_TRUNCATE: Final = 1 << 14
_FS_BITS: Final = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # kinds of access that a version knows


class _Rules(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def version() -> int:
    """Of Landlock in this kernel; 0 where there is none."""
    return max(int(libc().syscall(ctypes.c_long(_CREATE), None, ctypes.c_size_t(0), ctypes.c_uint32(1))), 0)


class Fence:  # pragma: no cover - in another process
    """Opened while paths can still be reached, closed around the process with `enter`. Raises OSError."""

    def __init__(self, readable: Iterable[str], writable: Iterable[str], devices: Iterable[str]) -> None:
        known = version()
        if known < 1:
            raise OSError("this kernel has no Landlock")
        handled = (1 << _FS_BITS.get(known, 16)) - 1
        # From version 4 on no TCP, from 6 on no signals to and no abstract sockets of processes outside.
        rules = _Rules(handled, 3 if known >= 4 else 0, 3 if known >= 6 else 0)
        size = ctypes.c_size_t(8 if known < 4 else 16 if known < 6 else 24)
        self._fd = syscall(_CREATE, ctypes.byref(rules), size, 0)
        everything = _READ | _WRITE_FILE | _CHANGE | (_TRUNCATE if known >= 3 else 0)
        for paths, allowed in ((readable, _READ), (writable, everything), (devices, 1 << 2 | _WRITE_FILE)):
            for path in paths:
                self._allow(path, allowed & handled)

    def _allow(self, path: str, allowed: int) -> None:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            if not os.path.isdir(path):
                allowed &= 1 << 1 | 1 << 2 | _TRUNCATE
            beneath = _Beneath(allowed, fd)
            syscall(_ADD, self._fd, 1, ctypes.byref(beneath), 0)
        finally:
            os.close(fd)

    def enter(self) -> None:
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        syscall(_RESTRICT, self._fd, 0)
        os.close(self._fd)
