"""Beam search: a step of it beside a greedy one, the pages it takes, and transformers' beam search.

usage: python bench/beams.py [--torch-python PYTHON] [--model NAME] [--width N] [--runs N] [--quick]

Bars, on smollm2-135m with 4 beams: a step takes at most 1.6 times as long as a greedy one, since its rows
share the weights; after a prompt of 1000 tokens it holds less than 1.15 times the pages of one sequence plus
four tails; and whole answers come at least 5 times as fast as from transformers in bfloat16. Greedy decoding,
beams and transformers take turns, and each figure is the median of its runs.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from time import perf_counter
from typing import Any, Final

from figures import Sample, print_table, save, this_machine, warn_if_busy
from sides import Side, float_model, transformers
from unspool import Beam, DecodingParams
from unspool.engine.engine import Engine
from unspool.kv.layout import pages_for
from unspool.llm import LLM
from unspool.models.catalogue import resolve
from unspool.types import Request
from workloads import LONG_TEXT, SHORT_PROMPT, cycled

LONG_PROMPT_TOKENS: Final = 1000


def drained(engine: Engine, request: Request) -> tuple[list[float], int]:
    """Milliseconds of each step after the prompt was read, and the most pages that were held."""
    request_id = engine.add(request)
    n_at_first = engine.stats().tokens_decoded
    times: list[float] = []
    n_most = 0
    while engine.is_in_flight(request_id):
        is_decoding, start = engine.stats().tokens_decoded > n_at_first, perf_counter()
        engine.step()
        if is_decoding:
            times.append(1e3 * (perf_counter() - start))
        n_most = max(n_most, engine.pool.n_live)
    return times, n_most


def measure(
    model: str, width: int, n_new: int, runs: int, n_threads: int, peer: Side | None
) -> dict[str, Any]:
    """Greedy decoding, beams and the peer in turn; prints the table and returns all values."""
    greedy = DecodingParams(temperature=0, max_tokens=n_new, ignore_eos=True)
    search = Beam(width=width)
    found: dict[str, list[float]] = {name: [] for name in ("greedy", "beams", "answer", "peer")}
    with LLM(model, threads=n_threads) as llm:
        engine = llm._engine
        prompt = tuple(llm.tokenize(SHORT_PROMPT, add_bos=False))
        long_prompt = tuple(cycled(llm.tokenize(LONG_TEXT, add_bos=False), LONG_PROMPT_TOKENS))
        job: dict[str, Any] = {
            "kind": "beams",
            "width": width,
            "prompt": prompt,
            "n_new": n_new,
            "n_threads": n_threads,
        }
        if peer is not None:
            job["float_model"] = float_model(peer.python, str(resolve(model)))
        for asked in (None, search):
            drained(engine, Request(prompt, greedy, search=asked))  # the first of each is slower
        for _ in range(runs):
            for name, asked in (("greedy", None), ("beams", search)):
                times, _ = drained(engine, Request(prompt, greedy, search=asked, use_cache=False))
                found[name].append(statistics.median(times))
            start = perf_counter()
            llm.generate(prompt, greedy, search=search, use_cache=False)
            found["answer"].append(n_new / (perf_counter() - start))
            if peer is not None:
                found["peer"].append(peer.run(job)["tok_s"])
            so_far = {name: round(values[-1], 2) for name, values in found.items() if values}
            print(f"run: {so_far}", file=sys.stderr)
        pages = {
            name: drained(engine, Request(long_prompt, greedy, search=asked, use_cache=False))[1]
            for name, asked in (("one", None), ("beams", search))
        }
        n_tail = pages_for(n_new, engine.storage.page_size)
    samples = {name: Sample(tuple(values)) for name, values in found.items() if values}
    ratio = samples["beams"].median / samples["greedy"].median
    rows = [
        ["greedy step, ms", str(samples["greedy"]), ""],
        [f"step of {width} beams, ms", str(samples["beams"]), f"{ratio:.2f} times greedy"],
        [f"answers of {width} beams, tokens/s", str(samples["answer"]), ""],
    ]
    if peer is not None:
        faster = samples["answer"].median / samples["peer"].median
        rows.append(["the same in transformers", str(samples["peer"]), f"ours: {faster:.1f} times as fast"])
    share = (pages["beams"] - width * n_tail) / pages["one"]
    rows.append(
        [
            f"pages after {LONG_PROMPT_TOKENS} tokens",
            str(pages["beams"]),
            f"{share:.2f} of one sequence's {pages['one']}, beside {width} tails of {n_tail}",
        ]
    )
    print(f"\n{model}, {n_threads} threads, {n_new} new tokens, median of {runs} runs\n")
    print_table(["what", "figure", ""], rows)
    return {"model": model, "width": width, "n_new": n_new, "figures": found, "pages": pages}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", default="smollm2-135m", metavar="NAME")
    parser.add_argument("--width", type=int, default=4, metavar="N", help="beams (default %(default)s)")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="(default %(default)s)")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="(default %(default)s)")
    parser.add_argument("--torch-python", metavar="PYTHON", help="one that has torch and transformers")
    parser.add_argument("--quick", action="store_true", help="few tokens: shows that it runs, not how fast")
    asked = parser.parse_args()
    machine = this_machine()
    warn_if_busy()
    peer = None if asked.torch_python is None else transformers(asked.torch_python)
    n_new, runs = (8, 1) if asked.quick else (64, asked.runs)
    results = measure(asked.model, asked.width, n_new, runs, asked.threads, peer)
    save("beams", machine, {"threads": asked.threads, **results})


if __name__ == "__main__":
    main()
