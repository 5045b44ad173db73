"""The half of vLLM's CPU build in a comparison: do one job, print one line of JSON.

usage: python bench/vllm_side.py JOB.json

bfloat16 weights from the folder that float_model.py wrote, the engine in this process, greedy. The
library times whole generations, so the time of decoding is that of a long one less that of a one-token
one after the same prompts; nothing is kept between the two (its prefix cache is off).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class Decoder:
    """vLLM with room for a job's sequences."""

    def __init__(self, job: dict[str, Any], n_tokens: int, n_sequences: int) -> None:
        os.environ["OMP_NUM_THREADS"] = str(job["n_threads"])
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        from vllm import LLM  # reads the variables above when it is imported

        self.llm = LLM(
            job["float_model"],
            dtype="bfloat16",
            max_model_len=n_tokens,
            max_num_seqs=n_sequences,
            enable_prefix_caching=False,
            skip_tokenizer_init=True,
        )
        self.seconds([[1, 2, 3]], 4)

    def seconds(self, prompts: Sequence[Sequence[int]], n_new: int) -> float:
        """Time of one generation of n_new tokens after every prompt."""
        from vllm import SamplingParams

        params = SamplingParams(
            temperature=0, max_tokens=n_new, min_tokens=n_new, ignore_eos=True, detokenize=False
        )
        inputs = [{"prompt_token_ids": list(prompt)} for prompt in prompts]
        start = time.perf_counter()
        answers = self.llm.generate(inputs, params, use_tqdm=False)
        elapsed: float = time.perf_counter() - start
        assert all(len(answer.outputs[0].token_ids) == n_new for answer in answers)
        return elapsed


def measure_speed(job: dict[str, Any]) -> dict[str, Any]:
    """Decode and prompt speed of one stream, after a short prompt and after long ones."""
    n_new = job["n_new"]
    longest = max(map(len, [job["prompt"], *job["long_prompts"].values(), *job["contexts"].values()]))
    decoder = Decoder(job, longest + n_new + 1, 1)

    def decode_tok_s(prompt: Sequence[int]) -> float:
        return float(n_new / (decoder.seconds([prompt], n_new + 1) - decoder.seconds([prompt], 1)))

    figures = {"decode_tok_s": decode_tok_s(job["prompt"])}
    for name, token_ids in job["long_prompts"].items():
        figures[f"prompt_{name}_tok_s"] = len(token_ids) / decoder.seconds([token_ids], 1)
    for name, token_ids in job["contexts"].items():
        figures[f"decode_at_{name}_tok_s"] = decode_tok_s(token_ids)
    return {"variants": {"bf16": figures}}


def measure_batched(job: dict[str, Any]) -> dict[str, Any]:
    """Tokens a second of all requests at once: while they decode, and with their prompts."""
    prompts, n_new = job["prompts"], job["n_new"]
    decoder = Decoder(job, max(map(len, prompts)) + n_new, len(prompts))
    read_s = decoder.seconds(prompts, 1)
    whole_s = decoder.seconds(prompts, n_new)
    return {
        "decode_tok_s": (n_new - 1) * len(prompts) / (whole_s - read_s),
        "whole_tok_s": n_new * len(prompts) / whole_s,
    }


KINDS = {"speed": measure_speed, "batched": measure_batched}


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    job = json.loads(Path(sys.argv[1]).read_text())
    answer = KINDS[job["kind"]](job)
    import vllm

    answer["program"] = f"vllm-cpu {vllm.__version__}"
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
