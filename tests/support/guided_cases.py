"""Guided answers of tiny random models, as cases that transformers and the engine both run.

A case is a dictionary: model (the name of an HfCase), prompt and negative ids (None: left out), scale,
repetition_penalty, n_new; and as recorded the answer's token_ids and the log-probability of each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from toy_engine import ToyVocabulary

from unspool.engine.engine import Engine
from unspool.params import DecodingParams
from unspool.runners.base import Runner
from unspool.types import Request

N_VOCAB = 64
MODELS = ("llama", "qwen2", "gemma3")
SCALES = (0.5, 1.1, 1.5, 3.0)

Case = dict[str, Any]


def random_case(seed: int) -> Case:
    rng = np.random.default_rng(seed)

    def ids() -> list[int]:
        return rng.integers(3, N_VOCAB, int(rng.integers(1, 9))).tolist()

    return {
        "model": MODELS[seed % len(MODELS)],
        "prompt": ids(),
        "negative": ids() if rng.random() < 0.6 else None,
        "scale": float(rng.choice(SCALES)),
        "repetition_penalty": float(rng.choice([1.0, 1.3])),
        "n_new": int(rng.integers(4, 11)),
    }


def params_of(case: Case) -> DecodingParams:
    return DecodingParams(
        temperature=0,
        guidance_scale=case["scale"],
        negative_prompt=case["negative"],
        repetition_penalty=case["repetition_penalty"],
        max_tokens=case["n_new"],
        ignore_eos=True,
        logprobs=0,
    )


def answered(runner: Runner, case: Case) -> tuple[list[int], list[float]]:
    """Token ids of the engine's answer, and their final log-probabilities."""
    engine = Engine(runner, ToyVocabulary([b"x"] * N_VOCAB))
    engine.add(Request(tuple(case["prompt"]), params_of(case)))
    events = []
    while not engine.is_idle:
        events += engine.step()
    ids = [token_id for event in events for token_id in event.token_ids]
    return ids, [entry.token.logprob_final for event in events for entry in event.logprobs]
