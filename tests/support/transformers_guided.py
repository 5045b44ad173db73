"""A case of guided_cases.py as transformers answers it; needs the oracle extra."""

from __future__ import annotations

from typing import Any

import torch
from guided_cases import Case


def generated(model: Any, case: Case) -> tuple[list[int], list[float]]:
    """Token ids, and the log-probability of each among the processed scores of its step."""
    with torch.no_grad():
        out = model.generate(
            torch.tensor([case["prompt"]]),
            do_sample=False,
            guidance_scale=case["scale"],
            negative_prompt_ids=None if case["negative"] is None else torch.tensor([case["negative"]]),
            repetition_penalty=case["repetition_penalty"],
            max_new_tokens=case["n_new"],
            eos_token_id=None,
            pad_token_id=0,
            return_dict_in_generate=True,
            output_scores=True,
        )
    ids = out.sequences[0, len(case["prompt"]) :].tolist()
    logprobs = [
        torch.log_softmax(z[0].double(), -1)[token_id].item()
        for z, token_id in zip(out.scores, ids, strict=True)
    ]
    return ids, logprobs
