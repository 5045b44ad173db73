"""transformers' half of a comparison: do one job, print one line of JSON.

usage: python bench/transformers_side.py JOB.json

bfloat16 weights from the folder that float_model.py wrote, a dynamic cache, and an argmax: a step is one
forward pass of the model, without the library's generation loop on its clock.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM


class Decoder:
    """Greedy decoding of sequences of equal length."""

    def __init__(self, job: dict[str, Any]) -> None:
        torch.set_num_threads(job["n_threads"])
        self.model = AutoModelForCausalLM.from_pretrained(job["float_model"], dtype=torch.bfloat16).eval()

    def run(self, prompts: Sequence[Sequence[int]], n_steps: int) -> tuple[float, float]:
        """Seconds to read the prompts up to their next tokens, and seconds of n_steps steps after them."""
        start = time.perf_counter()
        out = self.model(torch.tensor(prompts), use_cache=True, logits_to_keep=1)
        tokens = out.logits[:, -1].argmax(-1)
        read = time.perf_counter()
        for _ in range(n_steps):
            out = self.model(tokens[:, None], past_key_values=out.past_key_values, use_cache=True)
            tokens = out.logits[:, -1].argmax(-1)
        return read - start, time.perf_counter() - read


def measure_speed(job: dict[str, Any]) -> dict[str, Any]:
    """Decode and prompt speed of one stream, after a short prompt and after long ones."""
    decoder = Decoder(job)
    decoder.run([job["prompt"]], 2)
    n_new = job["n_new"]
    figures = {"decode_tok_s": n_new / decoder.run([job["prompt"]], n_new)[1]}
    for name, token_ids in job["long_prompts"].items():
        figures[f"prompt_{name}_tok_s"] = len(token_ids) / decoder.run([token_ids], 0)[0]
    for name, token_ids in job["contexts"].items():
        figures[f"decode_at_{name}_tok_s"] = n_new / decoder.run([token_ids], n_new)[1]
    return {"variants": {"bf16": figures}}


def measure_batched(job: dict[str, Any]) -> dict[str, Any]:
    """Tokens a second of all requests at once: while they decode, and with their prompts."""
    decoder = Decoder(job)
    prompts, n_new = job["prompts"], job["n_new"]
    decoder.run([prompts[0][:8]], 2)
    read_s, decode_s = decoder.run(prompts, n_new - 1)
    return {
        "decode_tok_s": (n_new - 1) * len(prompts) / decode_s,
        "whole_tok_s": n_new * len(prompts) / (read_s + decode_s),
    }


def measure_beams(job: dict[str, Any]) -> dict[str, Any]:
    """Beam search as `generate` does it, prompt and all; nothing ends before n_new tokens."""
    model = Decoder(job).model
    prompt = torch.tensor([job["prompt"]])
    settings = {"num_beams": job["width"], "do_sample": False, "pad_token_id": 0}

    def run(n_new: int) -> float:
        start = time.perf_counter()
        model.generate(prompt, max_new_tokens=n_new, min_new_tokens=n_new, **settings)
        return time.perf_counter() - start

    run(4)
    return {"tok_s": job["n_new"] / run(job["n_new"])}


KINDS = {"speed": measure_speed, "batched": measure_batched, "beams": measure_beams}


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    job = json.loads(Path(sys.argv[1]).read_text())
    transformers.logging.set_verbosity_error()
    warnings.simplefilter("ignore", FutureWarning)  # the name of the cache argument is changing
    with torch.inference_mode():
        answer = KINDS[job["kind"]](job)
    answer["program"] = f"transformers {transformers.__version__}, torch {torch.__version__}"
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
