"""Our own speed, latency and memory.

usage: python bench/own.py [--models NAME ...] [--runs N] [--quick]

Per model, each run in a fresh process: tokens a second of greedy decoding and of a long prompt, at the
runner and through the whole of LLM; the cost v(n) of a step with n sequences over a step with one; a step
of streams that have a long prompt in common, on the same pages and on copies of them; steps at contexts of
0 to 8k tokens and a prompt, with how much of this machine's bandwidth and integer units they use, measured
in the same process; the time to load;
peak memory over the size of the file; and the time from starting the command line program to the first
character of its answer. Once: what `import unspool` costs.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from typing import Any

from figures import Sample, print_table, save, this_machine, warn_if_busy
from peers import collect, speed_job, variants_of
from sides import Side, ours
from workloads import WORKLOADS, Workload, chosen, cycled


def first_character_s(model: str, n_threads: int) -> float:
    """Seconds from starting `unspool run` on a pulled model to the first byte on its standard output."""
    command = [sys.executable, "-m", "unspool", "run", "--model", model, "--threads", str(n_threads)]
    command += ["--raw", "--temperature", "0", "--max-tokens", "4", "Once upon a time"]
    start = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, bufsize=0
    ) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        first = program.stdout.read(1)
        elapsed = time.perf_counter() - start
        said = program.stderr.read().decode(errors="replace")
        program.stdout.read()
    if program.returncode != 0 or not first:
        sys.exit(f"error: {' '.join(command)} failed: {said.strip()}")
    return elapsed


def import_ms() -> float:
    """Milliseconds that `import unspool` adds to a bare interpreter, both as fresh processes."""

    def median_s(statement: str) -> float:
        times = []
        for _ in range(7):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", statement], check=True)
            times.append(time.perf_counter() - start)
        return statistics.median(times)

    return 1000 * (median_s("import unspool") - median_s("pass"))


def behind_a_prompt(
    us: Side, speed: dict[str, Any], workload: Workload, runs: int
) -> tuple[list[dict[str, Any]], list[list[str]]]:
    """A step of streams that have a prompt in common: the answers, and their rows of the table."""
    if workload.behind is None:
        return [], []
    n, length = workload.behind
    job = {**speed, "kind": "shared", "streams": n, "prompt": cycled(speed["text"], length)}
    answers = [us.run(job) for _ in range(runs)]
    rows = []
    for pages in ("shared", "copied"):
        ms = Sample(tuple(answer["step_ms"][pages] for answer in answers))
        rows.append([f"step of {n} behind {length} tokens, pages {pages}", "ms", str(ms)])
    return answers, rows


def beside_the_limits(
    us: Side, speed: dict[str, Any], workload: Workload, runs: int
) -> tuple[list[dict[str, Any]], list[list[str]]]:
    """Passes beside what the machine does at most: the answers, and their rows of the table."""
    prompt = workload.prompt_tokens[0]
    job = {**speed, "kind": "limits", "prompt": prompt, "contexts": list(workload.own_contexts)}
    answers = [us.run(job) for _ in range(runs)]
    rows = []
    for i, name in enumerate(one["name"] for one in answers[0]["passes"]):
        passes = [answer["passes"][i] for answer in answers]
        tokens, bandwidth, integers = (
            statistics.median(one[figure] for one in passes)
            for figure in ("tokens_per_s", "of_bandwidth", "of_integers")
        )
        limits = f"{bandwidth:.0%} of the bandwidth, {integers:.0%} of the integer units"
        rows.append([name, "tok/s", f"{tokens:.4g} ({limits})"])
    return answers, rows


def measure(us: Side, workload: Workload, runs: int, n_threads: int) -> dict[str, Any]:
    """All figures of one model, and their table."""
    job = speed_job(us, workload, n_threads)
    answers = [us.run(job) for _ in range(runs)]
    steps = [us.run({**job, "kind": "steps", "rows": list(workload.step_rows)}) for _ in range(2 * runs)]
    behind, behind_rows = behind_a_prompt(us, job, workload, runs)
    starts = Sample(tuple(first_character_s(workload.model, n_threads) for _ in range(runs)))
    memory = Sample(tuple((a["peak_bytes"] - a["kv_bytes"]) / a["file_bytes"] for a in answers))
    rows = [
        [f"load, {level}", "s", str(Sample(tuple(answer[f"load_{level.lower()}_s"] for answer in answers)))]
        for level in ("runner", "LLM")
    ]
    rows.append(["start to first character", "s", str(starts)])
    rows.append(["peak memory without KV / file", "ratio", str(memory)])
    for level, figures in collect([variants_of(job, answer) for answer in answers]).items():
        rows += [[f"{figure}, {level}", "tok/s", str(s)] for figure, s in figures.items()]
    for n in map(str, workload.step_rows):
        times = [each["step_ms"] for each in steps]
        ratio = statistics.median(ms[n] / ms["1"] for ms in times)
        rows.append([f"v({n})", "ratio", f"{ratio:.3f} ({statistics.median(ms[n] for ms in times):.2f} ms)"])
    limits, limit_rows = beside_the_limits(us, job, workload, runs)
    rows += behind_rows + limit_rows
    print(f"\n{workload.model}, {n_threads} threads, {answers[0]['program']}, median of {runs} runs\n")
    print_table([workload.model, "unit", "figure"], rows)
    return {
        "model": workload.model,
        "answers": answers,
        "steps": steps,
        "behind": behind,
        "limits": limits,
        "start_s": starts.values,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), metavar="NAME")
    parser.add_argument("--runs", type=int, default=3, help="runs of each figure (default %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="threads (default %(default)s)")
    parser.add_argument(
        "--quick", action="store_true", help="tiny workloads: shows that it runs, not how fast"
    )
    arguments = parser.parse_args()
    machine = this_machine()
    warn_if_busy()
    us = ours()
    results = [
        measure(us, workload, arguments.runs, arguments.threads)
        for workload in chosen(arguments.models, arguments.quick)
    ]
    milliseconds = import_ms()
    print(f"\nimport unspool: {milliseconds:.0f} ms beside a bare interpreter")
    save("own", machine, {"threads": arguments.threads, "import_ms": milliseconds, "models": results})


if __name__ == "__main__":
    main()
