"""What a pull looks like on standard error: a bar on a terminal, two lines in a log."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unspool.models.cache import Progress, PullStatus


@contextmanager
def pull_progress(name: str, *, quiet: bool = False) -> Iterator[Progress]:
    """A callable to hand to a pull. Nothing is drawn, nor rich imported, before it is first called."""
    if quiet:
        yield lambda _: None
        return
    view: _Bar | _Log | None = None

    def show(status: PullStatus) -> None:
        nonlocal view
        if view is None:
            view = _Bar(name) if sys.stderr.isatty() else _Log(name)
        view.show(status)

    try:
        yield show
    finally:
        if view is not None:
            view.close()


class _Log:
    """A line when a phase begins; no bar, no control characters."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last_phase = ""

    def show(self, status: PullStatus) -> None:
        if status.phase == self._last_phase:
            return
        self._last_phase = status.phase
        says = {
            "waiting": f"waiting: {status.detail}",
            "downloading": f"pulling {self._name}: {status.n_total_bytes / 1e6:,.0f} MB to download",
            "checking": f"checking {self._name}",
            "done": f"{self._name} is in {status.detail}",
        }
        print(says[status.phase], file=sys.stderr, flush=True)

    def close(self) -> None:
        sys.stderr.flush()


class _Bar:
    """Bytes, speed and time left, drawn by rich from the first status on."""

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        self._name = name
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task = self._bar.add_task(name, total=None)
        self._bar.start()

    def show(self, status: PullStatus) -> None:
        labels = {"waiting": status.detail, "checking": f"checking {self._name}"}
        self._bar.update(
            self._task,
            completed=status.n_done_bytes,
            total=status.n_total_bytes,
            description=labels.get(status.phase, self._name),
        )

    def close(self) -> None:
        self._bar.stop()
