"""A day of requests in miniature: memory stays as it is, and no page is lost.

usage: python bench/endurance.py [--requests N] [--cancelled FRACTION] [--seed N]

Short requests of every kind on the toy runner, two dozen at a time, each read as a stream, now one and now
another, so that most rest until they are read on. Some are given up at a random moment: in the queue, in the
prompt, between two tokens; by closing their stream or by dropping it. Prompts often begin alike, and the pool
is too small for all, so that requests are put back too. Resident memory is looked at after every hundredth
request, from a fifth of them on.

Exits with 1 when memory moves by more than 2 %, or a page is missing in the end.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

import numpy as np
import numpy.typing as npt

from unspool.engine.engine import Engine
from unspool.engine.limits import Limits
from unspool.engine.stream import EventStream
from unspool.engine.worker import Worker
from unspool.errors import UnspoolError
from unspool.params import DecodingParams
from unspool.runners.toy import ToyRunner
from unspool.types import Request

N_AT_ONCE = 24
N_LETTERS = 26
MOST_CHANGE = 0.02


class Letters:
    """A vocabulary of an end and the letters; implements engine.detokenize.Vocabulary."""

    vocab_size = 1 + N_LETTERS
    eos_ids = frozenset({0})

    def token_bytes(self, token_id: int) -> bytes:
        return bytes([96 + token_id]) if token_id else b""

    def all_token_bytes(self) -> tuple[bytes, npt.NDArray[np.int64]]:
        each = [self.token_bytes(token_id) for token_id in range(self.vocab_size)]
        return b"".join(each), np.array([0, *accumulate(map(len, each))])

    def encode(self, text: str, *, add_bos: bool = True) -> list[int]:
        return [byte - 96 for byte in text.encode()]

    def token_text(self, token_id: int) -> str:
        return self.token_bytes(token_id).decode() or "</s>"


@dataclass
class Report:
    """What was done, and what it left behind."""

    n_requests: int = 0
    n_cancelled: int = 0
    n_preemptions: int = 0
    cached_tokens: int = 0
    n_steps: int = 0
    n_pages_lost: int = 0
    seconds: float = 0.0
    resident: list[int] = field(default_factory=list)  # bytes, in the course of time

    @property
    def change(self) -> float:
        """The farthest that memory went from what it was at first."""
        return max((abs(n / self.resident[0] - 1) for n in self.resident), default=0.0)


def endure(n_requests: int, cancelled: float, seed: int) -> Report:
    """So many requests, of which a fraction is cancelled."""
    rng = np.random.default_rng(seed)
    runner = ToyRunner(vocab_size=Letters.vocab_size, n_pages=24, page_size=8, context_length=128)
    engine = Engine(runner, Letters(), limits=Limits(n_rows=64, n_tasks=12, n_unread=3))
    worker = Worker(engine)
    report = Report()
    reading: list[tuple[EventStream, int]] = []  # and how many events are read of it; -1: all
    n_opened = 0
    started = time.perf_counter()
    while report.n_requests < n_requests:
        n_wanted = N_AT_ONCE if len(reading) <= N_AT_ONCE // 2 else 0  # they come in waves
        while len(reading) < n_wanted and n_opened < n_requests:
            n_giving_up = report.n_cancelled + sum(n_left >= 0 for _, n_left in reading)
            gives_up = n_giving_up < cancelled * (n_opened + 1)
            reading.append((EventStream(worker, _request(rng)), int(rng.integers(10)) if gives_up else -1))
            n_opened += 1
        at = int(rng.integers(len(reading)))
        stream, n_left = reading[at]
        if n_left != 0 and _read(stream):
            reading[at] = (stream, n_left - 1)
            continue
        reading[at] = reading[-1]
        del reading[-1]
        report.n_requests += 1
        if n_left == 0:
            report.n_cancelled += 1
            if rng.random() < 0.5:
                stream.close()
        del stream  # which gives it up too
        if report.n_requests % 100 == 0 and report.n_requests >= n_requests // 5:
            gc.collect()
            report.resident.append(resident_bytes())
    report.seconds = time.perf_counter() - started
    worker.call(engine.check)  # after what was dropped last
    assert engine.is_idle, "every request has ended or was given up"
    stats = engine.stats()
    report.n_preemptions, report.n_steps = stats.n_preemptions, stats.n_steps
    report.cached_tokens = stats.tokens_found
    engine.storage.tree.clear()
    report.n_pages_lost = engine.pool.n_pages - engine.pool.n_free
    worker.close()
    return report


def _read(stream: EventStream) -> bool:
    """Read one event; whether there was one."""
    try:
        next(stream)
    except StopIteration:
        return False
    except UnspoolError:  # masks that leave nothing: an end like another
        return False
    return True


def _request(rng: np.random.Generator) -> Request:
    prompt = [1 + int(rng.integers(4))] * int(rng.integers(1, 30)) + rng.integers(1, 27, 4).tolist()
    few = bool(rng.random() < 0.02)
    params = DecodingParams(
        temperature=float(rng.choice([0.0, 1.0])),
        seed=int(rng.integers(2**31)),
        max_tokens=int(rng.integers(1, 24)),
        stop=("ab", "x") if rng.random() < 0.3 else (),
        stop_regex=("[aeiou]{3}",) if rng.random() < 0.2 else (),
        repetition_penalty=1.2 if rng.random() < 0.3 else 1.0,
        dry_multiplier=0.8 if rng.random() < 0.2 else 0.0,
        logprobs=2 if rng.random() < 0.2 else None,
        prompt_logprobs=1 if rng.random() < 0.1 else None,
        deadline_s=3600.0 if rng.random() < 0.3 else None,
        allowed_token_ids=(1, 2) if few else None,
        no_repeat_ngram_size=1 if few else 0,
    )
    return Request(
        tuple(prompt),
        params,
        priority=int(rng.integers(3)),
        salt=f"owner {rng.integers(1000)}" if rng.random() < 0.2 else None,
        use_cache=bool(rng.random() < 0.9),
    )


def resident_bytes() -> int:
    """Of this process, now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--cancelled", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if not Path("/proc/self/statm").exists():
        sys.exit("error: resident memory is read from /proc, which this system does not have")
    report = endure(options.requests, options.cancelled, options.seed)
    first, last = report.resident[0], report.resident[-1]
    print(f"{report.n_requests} requests, {report.n_cancelled} of them cancelled, in {report.seconds:.0f} s")
    print(f"{report.n_steps} steps, {report.n_preemptions} put back, {report.cached_tokens} tokens found")
    print(f"resident memory {first / 1e6:.1f} MB at a fifth, {last / 1e6:.1f} MB at the end,")
    print(f"never more than {100 * report.change:.2f} % from the first; {report.n_pages_lost} pages lost")
    if report.change > MOST_CHANGE or report.n_pages_lost:
        sys.exit(1)


if __name__ == "__main__":
    main()
