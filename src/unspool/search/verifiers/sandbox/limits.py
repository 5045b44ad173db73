"""How much a program in the sandbox may use, and the part of it that the kernel's limits enforce."""

from __future__ import annotations

from typing import Final

from unspool.errors import BadRequest, brief
from unspool.light_dataclass import dataclass

MOST: Final = 1 << 50  # of any of them; no system has more


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    cpu_s: int = 5  # processor time, all threads together
    wall_s: float = 10.0
    memory_bytes: int = 512 << 20  # address space; Python itself takes some 30 MB of it
    output_bytes: int = 64 << 10  # of standard output and error together
    file_bytes: int = 16 << 20  # of each file, and of all together where a file system of its own is there
    n_files: int = 64
    n_threads: int = 32

    def __post_init__(self) -> None:
        for name, least in (
            ("cpu_s", 1), ("wall_s", 0.01), ("memory_bytes", 64 << 20), ("output_bytes", 0),
            ("file_bytes", 0), ("n_files", 0), ("n_threads", 1),
        ):  # fmt: skip
            value = getattr(self, name)
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not is_number or not least <= value <= MOST or (name != "wall_s" and value != int(value)):
                kind = "number" if name == "wall_s" else "whole number"
                raise BadRequest(
                    f"{name} of the sandbox must be a {kind} in [{least}, {MOST}], got {brief(value)}",
                    code="bad_verifier",
                )


def apply(limits: SandboxLimits) -> None:  # pragma: no cover - in another process
    """Set the limits of this process for good; raising them again needs rights that it gives up."""
    import resource

    def cap(kind: int, value: int, hard: int | None = None) -> None:
        own = resource.getrlimit(kind)[1]
        top = value if hard is None else hard
        top = top if own == resource.RLIM_INFINITY else min(top, own)
        try:
            resource.setrlimit(kind, (min(value, top), top))
        except (OSError, ValueError):  # macOS has no address space limit; the clocks still hold
            if kind != resource.RLIMIT_AS:
                raise

    cap(resource.RLIMIT_CORE, 0)
    cap(resource.RLIMIT_CPU, int(limits.cpu_s), int(limits.cpu_s) + 1)
    cap(resource.RLIMIT_FSIZE, int(limits.file_bytes))
    cap(resource.RLIMIT_NOFILE, 64)
    cap(resource.RLIMIT_AS, int(limits.memory_bytes))
