"""From the start of a process to the first byte of its answer: our command line beside llama.cpp's own.

usage: python bench/first_token.py [--llama-cli PATH] [--model NAME] [--runs N]

PATH is `llama-cli`; of the programs beside it `llama-completion` is measured as well. `make
bench-first-token` builds them from the source that llama-cpp-python's own distribution carries, with
GGML_NATIVE=ON. Everybody has the same file, prompt and number of threads, answers greedily and starts anew
in turn. `llama-cli` chats, and what it shows before the answer is not the answer; `llama-completion` goes on
with the text. So ours is measured both ways. Ours starts from compiled bytecode, as every start after the
first.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from figures import Sample, print_table, save, this_machine, warn_if_busy
from unspool.models import catalogue

PROMPT = "Once upon a time"


@dataclass(frozen=True, slots=True)
class Program:
    """A command and what it writes before its answer."""

    name: str
    command: list[str]
    preface: bytes = b""


def programs(model: str, n_threads: int, llama_cli: Path | None) -> list[Program]:
    path = str(catalogue.resolve(model))
    ours = [sys.executable, "-m", "unspool", "run", "--model", path, "--threads", str(n_threads)]
    ours += ["--quiet", "--temperature", "0", "--max-tokens", "1", PROMPT]
    found = [Program("unspool run", ours), Program("unspool run --raw", [*ours, "--raw"])]
    if llama_cli is None:
        return found
    theirs = ["-m", path, "-p", PROMPT, "-n", "1", "-t", str(n_threads), "--temp", "0"]
    found.append(Program("llama-cli", [str(llama_cli), *theirs, "-st"], f"> {PROMPT}\n".encode()))
    completion = llama_cli.with_name("llama-completion")
    if completion.exists():
        plain = [str(completion), *theirs, "-no-cnv", "--no-display-prompt"]
        found.append(Program("llama-completion", plain))
    return found


def after(said: bytes, preface: bytes) -> bytes:
    """What was said after the preface; nothing as long as that has not come."""
    return said.partition(preface)[2] if preface else said


def first_byte_s(program: Program) -> float:
    """Seconds from starting the program to the first byte of its answer on standard output."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    with subprocess.Popen(
        program.command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        bufsize=0,
        env=environment,
    ) as process:
        assert process.stdout is not None
        said = b""
        while not after(said, program.preface):
            more = process.stdout.read(4096)
            if not more:
                sys.exit(f"error: {' '.join(program.command)} gave no answer")
            said += more
        elapsed = time.perf_counter() - start
        process.stdout.read()
    if process.returncode != 0:
        sys.exit(f"error: {' '.join(program.command)} failed (exit {process.returncode})")
    return elapsed


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--llama-cli", type=Path, metavar="PATH", help="llama.cpp's program to compare with")
    parser.add_argument("--model", default=catalogue.DEFAULT_MODEL, help="default %(default)s")
    parser.add_argument("--runs", type=int, default=9, help="starts of each (default %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="threads (default %(default)s)")
    arguments = parser.parse_args()
    machine = this_machine()
    warn_if_busy()
    measured = programs(arguments.model, arguments.threads, arguments.llama_cli)
    for program in measured:
        first_byte_s(program)  # files come into the page cache, bytecode is written
    times: dict[str, list[float]] = {program.name: [] for program in measured}
    for turn in range(arguments.runs):
        first = turn % len(measured)
        for program in measured[first:] + measured[:first]:
            times[program.name].append(1000 * first_byte_s(program))
    print(f"\n{arguments.model}, {arguments.threads} threads, {arguments.runs} starts of each in turn\n")
    rows = [[name, str(Sample(tuple(ms)))] for name, ms in times.items()]
    print_table(["start to first byte of the answer", "ms"], rows)
    save("first-token", machine, {"model": arguments.model, "threads": arguments.threads, "ms": times})


if __name__ == "__main__":
    main()
