"""What our engine does with many requests: the jobs of concurrency.py.

usage: python bench/unspool_engine_side.py JOB.json
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import unspool


def params(n_new: int) -> unspool.DecodingParams:
    return unspool.DecodingParams(temperature=0, max_tokens=n_new, ignore_eos=True)


def open_llm(job: dict[str, Any], **settings: Any) -> unspool.LLM:
    n_each = 2048 if job.get("long") else 512  # room to write until the long prompt has been read
    n_tokens = sum(len(prompt) + n_each for prompt in job["prompts"]) + len(job.get("long", ())) + 1024
    n_context = max(8192 if job.get("long") else 1024, 1024)
    return unspool.LLM(
        job["model"], threads=job["n_threads"], context_length=n_context, kv_tokens=n_tokens, **settings
    )


def batched(job: dict[str, Any]) -> dict[str, Any]:
    """All prompts at once through LLM.generate."""
    with open_llm(job) as llm:
        llm.generate(job["prompts"][0][:8], params(1))  # touches every page of the weights
        start = time.perf_counter()
        answers = llm.generate(job["prompts"], params(job["n_new"]))
        end = time.perf_counter()
    first_token = start + max(answer.usage.ttft_ms for answer in answers) / 1000
    n_written = sum(len(answer.token_ids) for answer in answers)
    assert n_written == len(job["prompts"]) * job["n_new"]
    # While all of them decode: from the last first token to the first last one nobody reads a prompt.
    slowest = max(answers, key=lambda answer: answer.usage.ttft_ms)
    n_steps = slowest.usage.decoded_tokens
    return {
        "decode_tok_s": n_steps * len(answers) / (end - first_token),
        "whole_tok_s": n_written / (end - start),
    }


def shared_prefix(job: dict[str, Any]) -> dict[str, Any]:
    """The same requests with what the prefix tree knows, and each on its own."""
    answer = {}
    for name, use_cache in (("with", True), ("without", False)):
        with open_llm(job) as llm:
            start = time.perf_counter()
            llm.generate(job["prompts"], params(8), use_cache=use_cache)
            seconds = time.perf_counter() - start
            answer[name] = {"tokens_read": llm.stats().tokens_read, "seconds": seconds}
    return answer


def latency(job: dict[str, Any]) -> dict[str, Any]:
    """Streams that decode before and while a long prompt is read: times of one token from each."""
    with open_llm(job) as llm:
        llm.generate(job["prompts"][0][:8], params(1))
        streams = [llm.stream(prompt, params(2000)) for prompt in job["prompts"]]

        def round_ms() -> float:
            start = time.perf_counter()
            for stream in streams:
                next(stream)
            return 1000 * (time.perf_counter() - start)

        for _ in range(20):
            round_ms()
        alone = [round_ms() for _ in range(100)]
        n_before = llm.stats().tokens_read
        start = time.perf_counter()
        long = llm.stream(job["long"], params(1))
        beside: list[float] = []
        while llm.stats().tokens_read - n_before < len(job["long"]):
            beside.append(round_ms())
        seconds = time.perf_counter() - start
        for stream in streams:
            stream.close()
        list(long)
    return {
        "median_ms": statistics.median(alone),
        "p99_alone_ms": statistics.quantiles(alone, n=100)[98],
        "median_beside_ms": statistics.median(beside),
        "p99_ms": statistics.quantiles(beside, n=100)[98],
        "long_prompt_s": seconds,
    }


KINDS = {"batched": batched, "shared_prefix": shared_prefix, "latency": latency}


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    job = json.loads(Path(sys.argv[1]).read_text())
    answer = KINDS[job["kind"]](job)
    answer["program"] = f"unspool {unspool.__version__}"
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
