"""A filter of system calls: no network, no new process or program, nothing done to other processes.

The filter is a program for the kernel's classic BPF machine (seccomp(2)). It lets through what it does not
name, so that Python runs as ever, and answers the rest with EPERM.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from typing import Final

from unspool.search.verifiers.sandbox.libc import PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, libc, prctl

AUDIT_ARCHS: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_MACHINES: Final = tuple(AUDIT_ARCHS)
_NONE: Final = -1

# Numbers on x86_64 and aarch64. Always refused:
REFUSED: Final = {
    # the network, and io_uring, which does calls that no filter sees
    "socket": (41, 198), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # new processes and programs, and leaving the group that is killed at the end
    "fork": (57, _NONE), "vfork": (58, _NONE), "execve": (59, 221), "execveat": (322, 281),
    "setsid": (112, 157), "setpgid": (109, 154),
    # other processes
    "tkill": (200, 130), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424), "pidfd_getfd": (438, 438),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "kcmp": (312, 272),
    "migrate_pages": (256, 238), "move_pages": (279, 239), "setpriority": (141, 140),
    "ioprio_set": (251, 30), "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118), "sched_setattr": (314, 274),
    # namespaces, mounts and what else only the kernel's own bugs make interesting
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "open_by_handle_at": (304, 265), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "keyctl": (250, 219), "add_key": (248, 217),
    "request_key": (249, 218), "shmget": (29, 194), "msgget": (68, 186), "semget": (64, 190),
}  # fmt: skip
# Refused unless the first argument is the process itself (0 means that too for prlimit64):
OWN_ONLY: Final = {"kill": (62, 129), "tgkill": (234, 131), "prlimit64": (302, 261)}
# Refused when an argument is one of these: to be killed no more with the keeper; to have the kernel send
# signals to others (F_SETOWN, F_SETOWN_EX, FIOSETOWN, SIOCSPGRP); to type into a terminal (TIOCSTI).
ARGUMENTS: Final = {
    "prctl": ((157, 167), 0, (1,)),
    "fcntl": ((72, 25), 1, (8, 15)),
    "ioctl": ((16, 29), 1, (0x8901, 0x8902, 0x5412)),
}
CLONE: Final = (56, 220)  # refused without CLONE_THREAD
CLONE3: Final = (435, 435)  # its flags are in memory, where no filter looks; the C library then uses clone

_LD, _JEQ, _JGE, _JSET, _RET = 0x20, 0x15, 0x35, 0x45, 0x06
_NR, _ARCH, _ARG0 = 0, 4, 16  # offsets in struct seccomp_data; of an argument the low half, little-endian
_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_ERRNO: Final = 0x00050000
_CLONE_THREAD: Final = 0x00010000

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, operand


def program(machine: str, own_pid: int) -> list[Instruction]:
    """The filter for a kind of machine."""
    which = _MACHINES.index(machine)
    eperm = (_RET, 0, 0, _ERRNO | errno.EPERM)
    allow = (_RET, 0, 0, _ALLOW)
    steps: list[Instruction] = [
        (_LD, 0, 0, _ARCH),
        (_JEQ, 1, 0, AUDIT_ARCHS[machine]),
        (_RET, 0, 0, _KILL),  # a 32-bit call has other numbers
        (_LD, 0, 0, _NR),
    ]
    if machine == "x86_64":  # x32 has the same calls under numbers from here on
        steps += [(_JGE, 0, 1, 0x40000000), eperm]
    for numbers in REFUSED.values():
        if numbers[which] != _NONE:
            steps += [(_JEQ, 0, 1, numbers[which]), eperm]
    steps += [(_JEQ, 0, 1, CLONE3[which]), (_RET, 0, 0, _ERRNO | errno.ENOSYS)]
    steps += [(_JEQ, 0, 4, CLONE[which]), (_LD, 0, 0, _ARG0), (_JSET, 0, 1, _CLONE_THREAD), allow, eperm]
    for name, numbers in OWN_ONLY.items():
        zero: list[Instruction] = [(_JEQ, 0, 1, 0), allow] if name == "prlimit64" else []
        body = [(_LD, 0, 0, _ARG0), *zero, (_JEQ, 0, 1, own_pid), allow, eperm]
        steps += [(_JEQ, 0, len(body), numbers[which]), *body]
    for numbers, argument, values in ARGUMENTS.values():
        body = [(_LD, 0, 0, _ARG0 + 8 * argument)]
        for value in values:
            body += [(_JEQ, 0, 1, value), eperm]
        steps += [(_JEQ, 0, len(body) + 1, numbers[which]), *body, allow]
    return [*steps, allow]


class _Program(ctypes.Structure):
    _fields_ = (("n", ctypes.c_ushort), ("steps", ctypes.c_void_p))


def install() -> None:  # pragma: no cover - in another process
    """Filter the calls of this process from now on. Raises OSError where that cannot be."""
    machine = platform.machine()
    if machine not in AUDIT_ARCHS:
        raise OSError(errno.ENOSYS, f"no filter for {machine}")
    steps = program(machine, os.getpid())
    packed = b"".join(struct.pack("=HBBI", *step) for step in steps)
    data = ctypes.create_string_buffer(packed, len(packed))
    filter_ = _Program(len(steps), ctypes.cast(data, ctypes.c_void_p))
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    long = ctypes.c_ulong
    if libc().prctl(PR_SET_SECCOMP, long(2), ctypes.byref(filter_), long(0), long(0)) != 0:
        raise OSError(ctypes.get_errno(), "seccomp is not permitted")
