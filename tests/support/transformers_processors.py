"""The processors of transformers in the order in which `generate` runs them, on one row."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from preset_cases import Case, array_of
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

# Names of DecodingParams that transformers has under the same name.
SAME = (
    "temperature", "top_k", "top_p", "min_p", "typical_p", "top_h", "epsilon_cutoff", "eta_cutoff",
    "repetition_penalty", "no_repeat_ngram_size",
)  # fmt: skip


@lru_cache(maxsize=1)
def _model() -> LlamaForCausalLM:
    """Only asked for the list of its processors."""
    sizes = dict.fromkeys(("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers"), 1)
    return LlamaForCausalLM(LlamaConfig(vocab_size=8, **sizes)).eval()


def config_of(case: Case) -> GenerationConfig:
    params = case["params"]
    given: dict[str, Any] = {name: params[name] for name in SAME if name in params}
    if "logit_bias" in params:
        given["sequence_bias"] = [[[token_id], float(bias)] for token_id, bias in params["logit_bias"]]
    if "bad_word_ids" in case:
        given["bad_words_ids"] = case["bad_word_ids"]
    config = GenerationConfig(do_sample=True, **given)
    config._eos_token_tensor = None  # `generate` sets it; no case has an end of the text
    return config


def processed(case: Case) -> np.ndarray:
    """The logits (V,) that transformers leaves of the case's row."""
    model, config = _model(), config_of(case)
    processors = model._get_logits_processor(config, input_ids_seq_length=case["n_prompt"], device="cpu")
    z = torch.from_numpy(array_of(case["logits"])[None])
    return processors(torch.tensor([case["token_ids"]]), z)[0].numpy()
