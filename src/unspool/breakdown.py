"""Where the time of a step goes, measured on this machine: behind `unspool bench`.

A pass is timed instruction by instruction on every thread. What it reads (packed weights once, K and V of
every sequence) over its time is the bandwidth it reached, beside what the same threads read from memory at
most; its multiply-adds likewise beside what the integer units do at most. Both limits are measured between
the passes, for a machine that others use has other limits a minute later.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from unspool.errors import BadRequest, brief, named
from unspool.kv.layout import pages_for
from unspool.light_dataclass import dataclass
from unspool.loading import check_settings, open_model
from unspool.runners.base import DEFAULT_PAGE_SIZE
from unspool.runners.instructions import KINDS, Kind, spans
from unspool.runners.native import NativeRunner
from unspool.thread_count import usable_processors
from unspool.types import Plan

DEFAULT_ROWS: Final = (1, 8)
DEFAULT_PROMPT: Final = 256
DEFAULT_CONTEXT: Final = 64
DEFAULT_ROUNDS: Final = 20
_LIMIT_TRIES: Final = 5  # measurements of the machine's limits, spread over the rounds
RANGES: Final[Mapping[str, tuple[int, int]]] = {  # of what is asked for, the least and the most
    "rows": (1, 1024),
    "prompt": (0, 1 << 20),
    "context": (0, 1 << 20),
    "rounds": (1, 100_000),
}
_MOST_ABOVE: Final = 1.2  # times the maximum, beyond what two measurements differ by


@dataclass(frozen=True, slots=True)
class KindTime:
    """What instructions of one kind took, in a median pass."""

    kind: Kind | str  # or "waiting": threads for each other; "outside": before, after and between threads
    ms: float  # mean over the threads
    share: float  # of the pass
    gb_per_s: float | None  # of weights, or of K and V, that they read; None where neither is read
    gmac_per_s: float | None  # multiply-adds with weights


@dataclass(frozen=True, slots=True)
class PassTime:
    """One kind of forward pass."""

    name: str
    n_rows: int
    ms: float  # median
    tokens_per_s: float
    read_bytes: int  # weights, and K and V of what the rows attend to
    of_bandwidth: float  # read_bytes over the time, of what the machine reads at most
    of_integers: float  # multiply-adds with weights over the time, of what the machine does at most
    kinds: tuple[KindTime, ...]


@dataclass(frozen=True, slots=True)
class Breakdown:
    """A model's passes on this machine."""

    isa: str
    n_threads: int
    weight_bytes: int  # packed
    read_gb_per_s: float  # what the threads read from memory at most, median
    integer_gmac_per_s: float  # multiply-adds of 8-bit integers at most, median
    passes: tuple[PassTime, ...]
    load_average: float | None  # of the minute before; None where the system does not tell it
    n_processors: int  # that this process may run on

    @property
    def doubts(self) -> tuple[str, ...]:
        """Signs that something else ran meanwhile, and that figures are too low or too high."""
        found = []
        if self.load_average is not None and self.load_average > self.n_processors / 2:
            found.append(
                f"the load average was {self.load_average:.1f} on {self.n_processors} processors before this "
                "began: what else runs takes part of the time"
            )
        if above := [
            f"{kind.kind} of {each.name}"
            for each in self.passes
            for kind in each.kinds
            if (kind.gb_per_s or 0) > _MOST_ABOVE * self.read_gb_per_s
            or (kind.gmac_per_s or 0) > _MOST_ABOVE * self.integer_gmac_per_s
        ]:
            found.append(
                f"above what this machine does at most: {', '.join(above)}; the maximum was measured while "
                "something else ran, or what is read fits into the processor's cache"
            )
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"doubts": list(self.doubts)}


@dataclass(frozen=True, slots=True)
class _Work:
    """Sequences that each add some rows to what they have."""

    name: str
    n_sequences: int
    n_new: int  # rows of each
    n_past: int  # tokens of each that are in the cache

    @property
    def n_rows(self) -> int:
        return self.n_sequences * self.n_new

    def plan(self, page_size: int) -> Plan:
        """Each sequence on pages of its own. They hold zeros, which take the time that anything takes once
        they were written (`_touch`)."""
        each = pages_for(self.n_past + self.n_new, page_size)
        starts = np.arange(self.n_sequences + 1, dtype=np.int32)
        return Plan(
            token_ids=np.ones(self.n_rows, dtype=np.int32),
            seq_start=starts * self.n_new,
            n_past=np.full(self.n_sequences, self.n_past, dtype=np.int32),
            page_table=np.arange(self.n_sequences * each, dtype=np.int32),
            page_start=starts * each,
            logits_rows=(starts[1:] * self.n_new - 1).astype(np.int32),
        )


def measure(
    model: str | Path,
    *,
    threads: int | None = None,
    rows: Sequence[int] = DEFAULT_ROWS,
    prompt: int = DEFAULT_PROMPT,
    context: int = DEFAULT_CONTEXT,
    rounds: int = DEFAULT_ROUNDS,
) -> Breakdown:
    """Time decoding steps of so many sequences, each with `context` tokens behind it, and the reading of a
    prompt of `prompt` tokens (0: none). Medians of `rounds` passes; all kinds of pass take turns.

    Raises BadRequest for numbers out of range, and what loading a model raises.
    """
    _check(rows, prompt, context, rounds)
    check_settings("native", threads, None, None, DEFAULT_PAGE_SIZE)
    load_average = _load_average()
    loaded = open_model(model)
    try:
        longest = loaded.graph.context_length
        if max(prompt, context + 1) > longest:
            raise BadRequest(
                f"{named('prompt', prompt)} and {named('context', context)} need {max(prompt, context + 1)} "
                f"tokens, and the model's context is {longest}; give {named('context')} below it and "
                f"{named('prompt')} up to it",
                code="context_too_long",
            )
        work = [_Work(f"decode {n}", n, 1, context) for n in rows]
        work += [_Work(f"prompt {prompt}", 1, prompt, 0)] if prompt else []
        n_pages = max(w.n_sequences * pages_for(w.n_past + w.n_new, DEFAULT_PAGE_SIZE) for w in work)
        runner = NativeRunner(loaded.graph, loaded.source, n_pages=n_pages, n_threads=threads)
        try:
            return _measure(runner, work, rounds, load_average)
        finally:
            runner.close()
    finally:
        loaded.close()


def _check(rows: Sequence[int], prompt: int, context: int, rounds: int) -> None:
    given = [*(("rows", n) for n in rows), ("prompt", prompt), ("context", context), ("rounds", rounds)]
    for name, value in given:
        least, most = RANGES[name]
        if type(value) is not int or not least <= value <= most:
            raise BadRequest(
                f"{named(name)} must be a whole number in [{least}, {most}], got {brief(value)}; leave it "
                "out for the default",
                code=f"bad_{name}",
            )
    if not rows and not prompt:
        raise BadRequest(
            f"{named('rows')} is empty and {named('prompt', prompt)} reads none, so there is nothing to "
            "measure; give one of them",
            code="bad_rows",
        )


def _load_average() -> float | None:
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):  # not on Windows
        return None


def _measure(
    runner: NativeRunner, work: Sequence[_Work], rounds: int, load_average: float | None
) -> Breakdown:
    plans = [w.plan(runner.page_size) for w in work]
    _touch(runner)
    seconds: list[list[float]] = [[] for _ in work]
    laps: list[list[npt.NDArray[np.int64]]] = [[] for _ in work]
    read_rates: list[float] = []
    integer_rates: list[float] = []
    for plan in plans:
        runner.forward(plan)  # touches every page of the weights
    runner.note_times(True)
    for number in range(rounds):
        if number % -(-rounds // _LIMIT_TRIES) == 0:
            read_rates.append(runner.read_rate())
            integer_rates.append(runner.integer_rate())
            runner.forward(plans[0])  # wakes the threads; in what follows they find one pass after the other
        for index, plan in enumerate(plans):
            started = perf_counter()
            runner.forward(plan)
            seconds[index].append(perf_counter() - started)
            laps[index].append(runner.times())
    read_rate, integer_rate = statistics.median(read_rates), statistics.median(integer_rates)
    passes = tuple(
        _pass_time(runner, w, s, list(map(partial(_by_kind, runner), noted, s)), read_rate, integer_rate)
        for w, s, noted in zip(work, seconds, laps, strict=True)
    )
    return Breakdown(
        *(runner.isa, runner.n_threads, runner.weight_bytes, read_rate / 1e9, integer_rate / 1e9, passes),
        *(load_average, usable_processors()),
    )


def _touch(runner: NativeRunner) -> None:
    """Write all pages: memory that was never written is one page of zeros, which the cache holds."""
    for page in range(1, runner.n_pages):
        runner.copy_page(0, page)


def _by_kind(runner: NativeRunner, times: npt.NDArray[np.int64], whole: float) -> dict[str, float]:
    """Seconds of each kind of instruction, of waiting and outside of both, mean over the threads, in a pass
    that took `whole` seconds."""
    total: dict[str, float] = {}
    for span in spans(runner.instructions, times):
        kind = span.instruction.kind
        total[kind] = total.get(kind, 0.0) + span.ended_ns - span.began_ns
        total["waiting"] = total.get("waiting", 0.0) + span.began_ns - span.ready_ns
    mean = {kind: 1e-9 * ns / runner.n_threads for kind, ns in total.items()}
    return {**mean, "outside": whole - sum(mean.values())}


def _pass_time(
    runner: NativeRunner,
    work: _Work,
    seconds: Sequence[float],
    noted: Sequence[dict[str, float]],
    read_rate: float,
    integer_rate: float,
) -> PassTime:
    whole = statistics.median(seconds)
    kv_bytes = work.n_sequences * (work.n_past + work.n_new) * runner.kv_shape.token_bytes
    read_bytes: dict[str, int] = {"attention": kv_bytes}
    macs: dict[str, int] = {}
    for instruction in runner.instructions:
        rows = work.n_sequences if instruction.kind == "output" else work.n_rows  # only wanted rows
        read_bytes[instruction.kind] = read_bytes.get(instruction.kind, 0) + instruction.weight_bytes
        macs[instruction.kind] = macs.get(instruction.kind, 0) + rows * instruction.macs
    times: dict[str, float] = {
        kind: statistics.median(each.get(kind, 0.0) for each in noted)
        for kind in (*KINDS, "waiting", "outside")
    }

    def rate(amount: int | None, s: float) -> float | None:
        return amount / s / 1e9 if amount and s > 0 else None

    kinds = tuple(
        KindTime(kind, 1e3 * s, s / whole, rate(read_bytes.get(kind), s), rate(macs.get(kind), s))
        for kind, s in times.items()
        if s > 0
    )
    all_bytes, all_macs = sum(read_bytes.values()), sum(macs.values())
    return PassTime(
        work.name,
        work.n_rows,
        1e3 * whole,
        work.n_rows / whole,
        all_bytes,
        all_bytes / whole / read_rate,
        all_macs / whole / integer_rate,
        kinds,
    )
