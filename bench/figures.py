"""What every measurement shares: the machine it ran on, medians and spreads, tables, results as JSON."""

from __future__ import annotations

import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).resolve().parent / "results"
BUSY_LOAD = 0.3  # runnable threads over the last minute beside our own


@dataclass(frozen=True, slots=True)
class Machine:
    """Where and when a figure was made."""

    cpu: str
    n_cores: int
    memory_gib: float
    python: str
    commit: str
    date: str
    load_average: float


def this_machine() -> Machine:
    return Machine(
        cpu=_cpu_name(),
        n_cores=os.cpu_count() or 1,
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        python=platform.python_version(),
        commit=_commit(),
        date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        load_average=round(os.getloadavg()[0], 2),
    )


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _commit() -> str:
    """The commit of this checkout, marked when it holds changes."""
    try:
        command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
        return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def warn_if_busy() -> None:
    """A figure made while something else computes is wrong; say so before it is made."""
    load = os.getloadavg()[0]
    if load > BUSY_LOAD:
        print(
            f"warning: load average {load:.2f}: other work is running, figures will be low", file=sys.stderr
        )


@dataclass(frozen=True, slots=True)
class Sample:
    """Repeated measurements of one quantity."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def spread(self) -> float:
        """(largest - smallest) / median."""
        return (max(self.values) - min(self.values)) / self.median

    def __str__(self) -> str:
        return f"{self.median:.4g} ±{50 * self.spread:.0f} %"


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Aligned columns, the first to the left, the others to the right; also valid Markdown."""
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cells[0].ljust(widths[0]),
            *(c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True)),
        ]
        return f"| {' | '.join(padded)} |"

    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    print("\n".join([line(heads), line(rule), *(line(row) for row in rows)]))


def save(name: str, machine: Machine, figures: dict[str, Any]) -> None:
    """Write results/<name>-<date>.json and say where."""
    RESULTS.mkdir(exist_ok=True)
    stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d-%H%M%S")
    path = RESULTS / f"{name}-{stamp}.json"
    path.write_text(json.dumps({"machine": asdict(machine), **figures}, indent=1) + "\n")
    print(f"\n{machine.cpu}, {machine.n_cores} cores, {machine.date}, commit {machine.commit}")
    print(f"written to {path.relative_to(ROOT)}")
