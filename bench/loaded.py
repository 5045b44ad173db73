"""Decoding while other processes want the cores, and what an idle model costs.

usage: python bench/loaded.py [--model NAME] [--runs N]

Tokens a second of greedy decoding at the runner, for one stream and for eight, alone and beside one and two
processes that spin, in turn within one process. Then the processor time that a loaded model takes while
nobody asks anything of it, after it has answered.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from figures import Sample, print_table, save, this_machine, warn_if_busy
from unspool import LLM, DecodingParams
from unspool.runners.base import Runner
from unspool.types import Plan

STREAMS = (1, 8)
SPINNERS = (0, 1, 2)
CONTEXT = 64  # tokens in the cache of each stream
SECONDS = 1.5  # of each measurement
IDLE_SECONDS = 20.0


@contextmanager
def spinning(n: int) -> Iterator[None]:
    """Beside n processes that do nothing but compute."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    try:
        time.sleep(0.3 if n else 0.0)
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def plan_of(n_streams: int, page_size: int) -> Plan:
    """A step of one row for each stream; again and again it writes the same position."""
    n_pages = CONTEXT // page_size + 1
    streams = np.arange(n_streams, dtype=np.int32)
    return Plan(
        token_ids=streams + 100,
        seq_start=np.arange(n_streams + 1, dtype=np.int32),
        n_past=np.full(n_streams, CONTEXT, np.int32),
        page_table=np.arange(n_streams * n_pages, dtype=np.int32),
        page_start=np.arange(n_streams + 1, dtype=np.int32) * np.int32(n_pages),
        logits_rows=streams,
    )


def decode_tok_s(runner: Runner, n_streams: int) -> float:
    plan = plan_of(n_streams, runner.page_size)
    start, n_steps = time.perf_counter(), 0
    while time.perf_counter() - start < SECONDS:
        runner.forward(plan)
        n_steps += 1
    return n_steps * n_streams / (time.perf_counter() - start)


def idle_percent(llm: LLM) -> float:
    """Of one processor, taken by this process while it sleeps, after some requests."""
    llm.generate(["Once upon a time", "A", "The sea"], DecodingParams(max_tokens=16))
    time.sleep(0.5)
    before = time.process_time()
    time.sleep(IDLE_SECONDS)
    return 100 * (time.process_time() - before) / IDLE_SECONDS


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", default="smollm2-135m", help="default %(default)s")
    parser.add_argument("--runs", type=int, default=3, help="runs of each figure (default %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="threads (default %(default)s)")
    arguments = parser.parse_args()
    machine = this_machine()
    warn_if_busy()
    rates: dict[tuple[int, int], list[float]] = {(n, k): [] for n in STREAMS for k in SPINNERS}
    with LLM(arguments.model, threads=arguments.threads) as llm:
        for _ in range(arguments.runs):
            for n_streams, n_spinners in rates:
                with spinning(n_spinners):
                    rates[n_streams, n_spinners].append(decode_tok_s(llm.runner, n_streams))
        idle = idle_percent(llm)
    samples = {key: Sample(tuple(values)) for key, values in rates.items()}
    print(f"\n{arguments.model}, {arguments.threads} threads, median of {arguments.runs} runs\n")
    rows = [
        [f"{n}", f"{k}", str(sample), f"{samples[n, 0].median / sample.median:.2f}"]
        for (n, k), sample in samples.items()
    ]
    print_table(["streams", "spinning processes", "tok/s", "times slower"], rows)
    print(f"\nidle: {idle:.3f} % of a processor over {IDLE_SECONDS:.0f} s")
    raw = [{"streams": n, "spinning": k, "tok_s": values} for (n, k), values in rates.items()]
    save("loaded", machine, {"threads": arguments.threads, "decode": raw, "idle_percent": idle})


if __name__ == "__main__":
    main()
