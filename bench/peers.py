"""Our speed beside llama.cpp's: the same files, tokens and threads, fresh processes, runs in turn.

usage: python bench/peers.py --peer-python .venv-peers/bin/python [--models NAME ...] [--runs N] [--quick]

Both programs decode greedily after a short prompt and read long prompts, through their lowest interface
(our runner's `forward`, their `llama_decode`), so that neither has sampling code on its clock; our figure
through the whole of `LLM` stands beside. llama.cpp is measured with flash attention on and off, and the
better median counts. Who goes first changes every round.
"""

from __future__ import annotations

import argparse
from typing import Any

from figures import Sample, print_table, save, this_machine, warn_if_busy
from sides import Side, llama_cpp, ours
from workloads import LONG_TEXT, N_CTX, SHORT_PROMPT, WORKLOADS, Workload, chosen, cycled

BARS = {
    ("smollm2-135m", "decode_tok_s"): 1.3,
    ("smollm2-135m", "prompt_512_tok_s"): 4.0,
    ("qwen2.5-coder-1.5b", "decode_tok_s"): 0.8,
    ("qwen2.5-coder-1.5b", "prompt_256_tok_s"): 1.8,
    ("qwen2.5-coder-1.5b", "prompt_512_tok_s"): 1.8,
}
LOWEST_LEVEL = "runner"


def speed_job(us: Side, workload: Workload, n_threads: int) -> dict[str, Any]:
    """The job both programs get."""
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
    }


def collect(answers: list[dict[str, Any]]) -> dict[str, dict[str, Sample]]:
    """Variant -> figure -> the values of all runs."""
    variants: dict[str, dict[str, list[float]]] = {}
    for answer in answers:
        for variant, figures in answer["variants"].items():
            for figure, value in figures.items():
                variants.setdefault(variant, {}).setdefault(figure, []).append(value)
    return {
        variant: {figure: Sample(tuple(values)) for figure, values in figures.items()}
        for variant, figures in variants.items()
    }


def compare(us: Side, them: Side, workload: Workload, runs: int, n_threads: int) -> dict[str, Any]:
    """Alternate the two programs and print one table."""
    job = speed_job(us, workload, n_threads)
    answers: dict[str, list[dict[str, Any]]] = {us.name: [], them.name: []}
    for number in range(runs):
        for side in (us, them) if number % 2 == 0 else (them, us):
            answers[side.name].append(side.run(job))
    mine, theirs = collect(answers[us.name]), collect(answers[them.name])
    rows, ratios = [], {}
    for figure, sample in mine[LOWEST_LEVEL].items():
        best = max(theirs, key=lambda variant: theirs[variant][figure].median)
        peer = theirs[best][figure]
        ratios[figure] = sample.median / peer.median
        bar = BARS.get((workload.model, figure))
        through_llm = mine.get("LLM", {}).get(figure)
        rows.append(
            [
                figure,
                str(sample),
                str(through_llm) if through_llm else "",
                f"{peer} ({best})",
                f"{ratios[figure]:.2f}",
                "" if bar is None else f">= {bar:g} {'met' if ratios[figure] >= bar else 'MISSED'}",
            ]
        )
    print(f"\n{workload.model}, {n_threads} threads, median of {runs} runs (± half the spread)\n")
    print_table(
        [workload.model, "unspool", "through LLM", answers[them.name][0]["program"], "ratio", "bar"], rows
    )
    return {"model": workload.model, "answers": answers, "ratios": ratios}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--peer-python", required=True, help="Python of an environment with llama-cpp-python")
    parser.add_argument("--models", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), metavar="NAME")
    parser.add_argument("--runs", type=int, default=5, help="runs of each program (default %(default)s)")
    parser.add_argument(
        "--threads", type=int, default=2, help="threads of each program (default %(default)s)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="tiny workloads: shows that it runs, not how fast"
    )
    arguments = parser.parse_args()
    us, them = ours(), llama_cpp(arguments.peer_python)
    machine = this_machine()
    warn_if_busy()
    results = [
        compare(us, them, workload, arguments.runs, arguments.threads)
        for workload in chosen(arguments.models, arguments.quick)
    ]
    save("peers", machine, {"threads": arguments.threads, "models": results})


if __name__ == "__main__":
    main()
