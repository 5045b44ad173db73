"""Calls of the C library that Python has no function for."""

from __future__ import annotations

import ctypes
import os
from typing import Any, Final

PR_SET_PDEATHSIG: Final = 1
PR_SET_SECCOMP: Final = 22
PR_CAPBSET_DROP: Final = 24
PR_SET_NO_NEW_PRIVS: Final = 38

_libc: Any = None


def libc() -> Any:
    global _libc
    if _libc is None:
        _libc = ctypes.CDLL(None, use_errno=True)
    return _libc


def checked(result: int, what: str) -> int:  # pragma: no cover - in another process
    """Raise OSError where a call returned -1."""
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def prctl(option: int, value: int = 0) -> None:  # pragma: no cover - in another process
    long = ctypes.c_ulong
    checked(libc().prctl(option, long(value), long(0), long(0), long(0)), "prctl")


def mount(
    source: str, target: str, kind: str | None, flags: int, data: str | None = None
) -> None:  # pragma: no cover - in another process
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, data)]
    result = libc().mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3])
    checked(result, f"mount {target}")


def syscall(number: int, *arguments: Any) -> int:  # pragma: no cover - in another process
    """The arguments must be ctypes values, or ints that fit a long."""
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return checked(libc().syscall(ctypes.c_long(number), *words), f"system call {number}")


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


def drop_capabilities() -> None:  # pragma: no cover - in another process
    """Give up what root can do beyond others, in this process and for good."""
    for capability in range(64):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:  # there are no more, or the process never had the right to drop them
            break
    header = _CapabilityHeader(0x20080522, 0)
    none = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable, twice 32 bits each
    checked(libc().capset(ctypes.byref(header), ctypes.byref(none)), "capset")
