"""UNSPOOL_PROFILE=1: where an engine's time goes, as a trace that chrome://tracing and Perfetto show.

One row for the engine, with the parts of each step, and one for each thread of the forward pass, with every
instruction and the time spent waiting before it. The last steps are kept; the file is written when the
model is closed. The format is the "Trace Event Format" with complete events ("X"), times in microseconds.
"""

from __future__ import annotations

import json
import logging
import os
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from unspool.engine.engine import Engine
from unspool.engine.journal import tell
from unspool.errors import BadRequest
from unspool.runners.base import Runner
from unspool.runners.instructions import spans
from unspool.runners.native import NativeRunner

VARIABLE: Final = "UNSPOOL_PROFILE"
N_STEPS: Final = 500  # kept; a step of few rows and 30 layers is about 80 KB of JSON
PARTS: Final = ("plan", "forward", "pipeline", "commit")
_ENGINE_ROW: Final = 0  # rows of threads follow


class Timeline:
    """The last steps of one engine, and the file that they go to."""

    def __init__(self, engine: Engine, runner: Runner, path: Path) -> None:
        self.path = path
        self._runner = runner if isinstance(runner, NativeRunner) else None
        self._steps: deque[tuple[Sequence[float], npt.NDArray[np.int64] | None]] = deque(maxlen=N_STEPS)
        self._n_steps = 0
        if self._runner is not None:
            self._runner.note_times(True)
        engine.storage.journal.watch = self._add

    @classmethod
    def wanted(cls, engine: Engine, runner: Runner) -> Timeline | None:
        """One where the environment asks for it: "1" names the file after the process, else it is a path."""
        value = os.environ.get(VARIABLE, "")
        if value in ("", "0"):
            return None
        path = Path(f"unspool-profile-{os.getpid()}.json" if value == "1" else value).absolute()
        if not path.parent.is_dir():
            raise BadRequest(
                f"{VARIABLE}={value}: there is no folder {path.parent}; give a file in one that exists, or 1",
                code="bad_profile_path",
            )
        if path.is_dir():
            raise BadRequest(
                f"{VARIABLE}={value} is a folder; give the name of a file, or 1", code="bad_profile_path"
            )
        if path.exists() and not path.is_file():  # a device or a pipe, which a file would take the place of
            raise BadRequest(
                f"{VARIABLE}={value} is no regular file; give another name, or 1", code="bad_profile_path"
            )
        return cls(engine, runner, path)

    def _add(self, laps: Sequence[float]) -> None:
        self._steps.append((laps, None if self._runner is None else self._runner.times()))
        self._n_steps += 1

    def write(self) -> None:
        """Write the file, whole or not at all."""
        unfinished = self.path.with_name(self.path.name + ".part")
        with open(unfinished, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": list(self.events()), "displayTimeUnit": "ms"}, file)
        os.replace(unfinished, self.path)
        tell(
            logging.INFO,
            "profile.written",
            f"the last {len(self._steps)} of {self._n_steps} steps are in {self.path}",
            path=str(self.path),
            steps=len(self._steps),
            of_steps=self._n_steps,
        )

    def events(self) -> Iterator[dict[str, Any]]:
        """The trace's events in the order of the steps."""
        yield _named("engine", _ENGINE_ROW)
        n_threads = 0 if self._runner is None else self._runner.n_threads
        for thread in range(n_threads):
            yield _named(f"thread {thread}", thread + 1)
        for laps, times in self._steps:
            for part, begin, end in zip(PARTS, laps[:-1], laps[1:], strict=True):
                yield _complete(part, "step", _ENGINE_ROW, 1e6 * begin, 1e6 * end)
            if self._runner is None or times is None:
                continue
            for span in spans(self._runner.instructions, times):
                kind, row = span.instruction.kind, span.thread + 1
                if span.began_ns > span.ready_ns:
                    yield _complete("wait", "wait", row, span.ready_ns / 1e3, span.began_ns / 1e3)
                name = f"{kind} {span.instruction.name}"
                yield _complete(name, kind, row, span.began_ns / 1e3, span.ended_ns / 1e3)


def _named(name: str, row: int) -> dict[str, Any]:
    return {"ph": "M", "name": "thread_name", "pid": 1, "tid": row, "args": {"name": name}}


def _complete(name: str, category: str, row: int, begin_us: float, end_us: float) -> dict[str, Any]:
    timing = {"ts": round(begin_us, 3), "dur": round(end_us - begin_us, 3)}
    return {"ph": "X", "name": name, "cat": category, "pid": 1, "tid": row, **timing}
