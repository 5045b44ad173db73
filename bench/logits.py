"""What it takes to choose a token from logits: ours beside transformers' processors and llama.cpp's chain.

usage: python bench/logits.py --torch-python .venv-oracle/bin/python --peer-python .venv-peers/bin/python
                              [--runs N] [--quick]

All read the same logits and choose with penalties on 500 tokens, 100 biases, temperature, top-k 50, top-p
0.95 and min-p 0.05, and then with a temperature alone over the whole vocabulary. One row at a time, fresh
processes, and who goes first changes every round. A decode step of SmolLM2 stands beside, to say what share
of it the choice is.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from figures import Sample, print_table, save, this_machine, warn_if_busy
from logits_workload import SIZES, write_rows
from sides import Side, llama_cpp, ours, transformers
from workloads import SHORT_PROMPT

WORK = {"full_us": "full pipeline", "temperature_us": "temperature alone"}
LEAST_RATIO = {"transformers": 20.0, "llama.cpp": 3.0}  # of the full pipeline
MOST_SHARE = 0.05  # of a decode step of this model, at its vocabulary
MODEL, MODEL_SIZE = "smollm2-135m", 49_152
MOST_US = {("temperature_us", 151_936): 400.0}


def decode_step_us(n_threads: int) -> float:
    """A decode step of SmolLM2 without choosing, in microseconds."""
    us = ours()
    tokens = us.run({"kind": "tokenize", "model": MODEL, "texts": [SHORT_PROMPT]})
    prompt = tokens["token_ids"][0]
    job = {"kind": "steps", "model": tokens["path"], "rows": [1], "n_threads": n_threads, "prompt": prompt}
    return float(1000 * us.run(job)["step_ms"]["1"])


def alternate(sides: list[Side], job: dict[str, Any], runs: int) -> dict[str, list[dict[str, Any]]]:
    answers: dict[str, list[dict[str, Any]]] = {side.name: [] for side in sides}
    for number in range(runs):
        for side in sides if number % 2 == 0 else sides[::-1]:
            answers[side.name].append(side.run(job))
    return answers


def sample(answers: list[dict[str, Any]], n_vocab: int, figure: str) -> Sample:
    return Sample(tuple(answer["figures"][str(n_vocab)][figure] for answer in answers))


def verdict(bar: str, is_met: bool) -> str:
    return f"{bar} {'met' if is_met else 'MISSED'}"


def compare(
    us: Side, peers: list[Side], answers: dict[str, list[dict[str, Any]]], step_us: float
) -> dict[str, float]:
    """Print the table; ratios by vocabulary, work and peer."""
    rows, ratios = [], {}
    for figure, work in WORK.items():
        for n_vocab in SIZES:
            mine = sample(answers[us.name], n_vocab, figure)
            cells, bars = [f"{work}, {n_vocab:,}", str(mine)], []
            for peer in peers:
                theirs = sample(answers[peer.name], n_vocab, figure)
                ratio = ratios[f"{figure} {n_vocab} {peer.name}"] = theirs.median / mine.median
                cells += [str(theirs), f"{ratio:.1f}"]
                if figure == "full_us":
                    least = LEAST_RATIO[peer.name]
                    bars.append(verdict(f">= {least:g}", ratio >= least))
            if figure == "full_us" and n_vocab == MODEL_SIZE:
                share = ratios["share of a decode step"] = mine.median / step_us
                bars.append(
                    verdict(f"{100 * share:.1f} % of a step, < {100 * MOST_SHARE:g} %", share < MOST_SHARE)
                )
            if (figure, n_vocab) in MOST_US:
                most = MOST_US[figure, n_vocab]
                bars.append(verdict(f"<= {most:g}", mine.median <= most))
            rows.append([*cells, ", ".join(bars)])
    heads = ["microseconds", answers[us.name][0]["program"]]
    for peer in peers:
        heads += [answers[peer.name][0]["program"], "ratio"]
    print_table([*heads, "bars"], rows)
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--torch-python", required=True, help="Python of an environment with transformers")
    parser.add_argument("--peer-python", required=True, help="Python of an environment with llama-cpp-python")
    parser.add_argument("--runs", type=int, default=5, help="runs of each program (default %(default)s)")
    parser.add_argument(
        "--threads", type=int, default=2, help="threads of torch and of a decode step (default %(default)s)"
    )
    parser.add_argument("--quick", action="store_true", help="few calls: shows that it runs, not how fast")
    arguments = parser.parse_args()
    us = ours("logits_unspool.py")
    peers = [
        transformers(arguments.torch_python, "logits_transformers.py"),
        llama_cpp(arguments.peer_python, "logits_llama_cpp.py"),
    ]
    machine = this_machine()
    warn_if_busy()
    step_us = decode_step_us(arguments.threads)
    with tempfile.TemporaryDirectory() as folder:
        job = {
            "kind": "logits",
            "logits": write_rows(Path(folder), SIZES),
            "n_calls": 5 if arguments.quick else 40,
            "n_threads": arguments.threads,
        }
        answers = alternate([us, *peers], job, arguments.runs)
    print(f"\none row, median of {arguments.runs} runs (± half the spread); a decode step: {step_us:.0f}\n")
    ratios = compare(us, peers, answers, step_us)
    save("logits", machine, {"step_us": step_us, "answers": answers, "ratios": ratios})


if __name__ == "__main__":
    main()
