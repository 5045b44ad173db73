"""What the engine costs beside the network: the bar is 5 % of a step.

usage: python bench/overhead.py [--models NAME ...] [--requests N ...] [--quick]

N requests decode together, greedily and then sampled with a usual set of parameters; steps that read prompts
are left out. For each part of a step its median and, since other work on the machine only ever adds time,
its lowest decile. `overhead` is everything but the forward pass. The last column is the same share for
whole answers through LLM: prompts, tokenizer, worker thread and all, by the wall clock.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

from figures import print_table, save, this_machine, warn_if_busy
from prompts import PROMPTS
from unspool import DecodingParams
from unspool.engine.engine import Engine
from unspool.engine.stats import EngineStats
from unspool.llm import LLM
from unspool.types import Request
from workloads import WORKLOADS, cycled

PARTS: Final = ("plan", "forward", "pipeline", "commit")
SETTINGS: Final = {
    "greedy": DecodingParams(temperature=0),
    "sampled": DecodingParams(temperature=0.8, top_k=40, top_p=0.95, min_p=0.05, repetition_penalty=1.1),
}
PROMPT_TOKENS: Final = 64


@dataclass(frozen=True, slots=True)
class Step:
    """One step's parts in milliseconds."""

    ms: dict[str, float]

    @classmethod
    def between(cls, before: EngineStats, after: EngineStats) -> Step:
        return cls({p: 1e3 * (getattr(after, f"{p}_s") - getattr(before, f"{p}_s")) for p in PARTS})

    @property
    def overhead_ms(self) -> float:
        return sum(self.ms.values()) - self.ms["forward"]


def decoding_steps(
    engine: Engine, prompt: list[int], params: DecodingParams, n: int, n_steps: int
) -> list[Step]:
    """Steps in which n requests with different prompts decode, and nothing else runs."""
    params = params.replace(max_tokens=n_steps + n + 64, ignore_eos=True, seed=7)
    ids = [engine.add(Request((*prompt[i:], *prompt[:i]), params)) for i in range(n)]
    answering: set[int] = set()
    while len(answering) < n:
        answering |= {event.request_id for event in engine.step()}  # its prompt has been read
    steps, before = [], engine.stats()
    for _ in range(n_steps):
        engine.step()
        after = engine.stats()
        steps.append(Step.between(before, after))
        before = after
    for request_id in ids:
        engine.cancel(request_id)
    return steps


def share_through_llm(llm: LLM, prompt: list[int], params: DecodingParams, n: int, n_steps: int) -> float:
    """The part of the time of n whole answers that no forward pass was running."""
    params = params.replace(max_tokens=n_steps, ignore_eos=True, seed=7)
    before, started = llm.stats(), perf_counter()
    llm.generate([[*prompt[i:], *prompt[:i]] for i in range(n)], params)
    return 1 - (llm.stats().forward_s - before.forward_s) / (perf_counter() - started)


def decile(values: list[float]) -> float:
    return sorted(values)[len(values) // 10]


def measure(model: str, n_requests: list[int], n_steps: int, n_threads: int) -> dict[str, Any]:
    rows, results = [], []
    n_tokens = max(n_requests) * (PROMPT_TOKENS + n_steps + max(n_requests) + 128)
    with LLM(model, threads=n_threads, kv_tokens=n_tokens) as llm:
        prompt = cycled(llm.tokenize("\n\n".join(PROMPTS), add_bos=False), PROMPT_TOKENS)
        for name, params in SETTINGS.items():
            for n in n_requests:
                steps = decoding_steps(llm._engine, prompt, params, n, n_steps)
                columns = {p: [step.ms[p] for step in steps] for p in PARTS}
                columns["overhead"] = [step.overhead_ms for step in steps]
                median = {p: statistics.median(values) for p, values in columns.items()}
                low = {p: decile(values) for p, values in columns.items()}
                share, low_share = (
                    100 * f["overhead"] / (f["overhead"] + f["forward"]) for f in (median, low)
                )
                cells = [f"{median[p]:.3f} ({low[p]:.3f})" for p in columns]
                whole = 100 * share_through_llm(llm, prompt, params, n, n_steps)
                rows.append([f"{name}, {n}", *cells, f"{share:.1f} % ({low_share:.1f} %)", f"{whole:.1f} %"])
                figures = {"median_ms": median, "low_decile_ms": low, "through_llm_percent": whole}
                results.append({"settings": name, "requests": n, **figures})
    print(f"\n{model}, {n_threads} threads, {n_steps} steps each, ms: median (lowest decile)\n")
    print_table(["decoding", *PARTS, "overhead", "share", "LLM"], rows)
    return {"model": model, "steps": n_steps, "results": results}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--models", nargs="+", default=["smollm2-135m"], metavar="NAME", help=", ".join(WORKLOADS)
    )
    parser.add_argument("--requests", nargs="+", type=int, default=[1, 32], metavar="N")
    parser.add_argument("--steps", type=int, default=100, help="steps of each figure (default %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="threads (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="few steps: shows that it runs, not how fast")
    arguments = parser.parse_args()
    machine = this_machine()
    warn_if_busy()
    n_steps = 5 if arguments.quick else arguments.steps
    results = [measure(m, arguments.requests, n_steps, arguments.threads) for m in arguments.models]
    save("overhead", machine, {"threads": arguments.threads, "models": results})


if __name__ == "__main__":
    main()
