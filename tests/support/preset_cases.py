"""Rows for the parity tests of the presets: made here, recorded by tests/oracle/record_*.py.

A case is a dictionary, one a line of its JSON file:

    params     names and values of DecodingParams, without the order
    logits     (V,), null for -inf
    token_ids  prompt and answer so far; the first n_prompt are the prompt
    kept       ids that the engine leaves, ascending
    probs      and their probabilities
    ties       the engine's sort decided between equal logits, so that only the probabilities are comparable
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).parent.parent / "data"
Case = dict[str, Any]


def random_logits(rng: np.random.Generator, n_vocab: int) -> list[float | None]:
    """Short decimals; half of the rows on a coarse grid, so that equal logits abound; some -inf."""
    z = rng.normal(size=n_vocab) * rng.choice([0.5, 1.5, 3])
    z = np.round(z * 4) / 4 if rng.random() < 0.5 else np.round(z, 2)
    masked = rng.random(n_vocab) < rng.choice([0, 0, 0.3])
    masked[int(z.argmax())] = False
    return [None if gone else float(x) for x, gone in zip(z, masked, strict=True)]


def random_text(rng: np.random.Generator, n_vocab: int) -> tuple[list[int], int]:
    """Token ids full of repeats, and how many of them are the prompt."""
    ids = rng.integers(0, min(n_vocab, 8), size=int(rng.integers(2, 14))).tolist()
    if rng.random() < 0.5:
        ids += ids[: int(rng.integers(1, len(ids)))]
    return ids, int(rng.integers(1, len(ids)))


def array_of(logits: list[float | None]) -> np.ndarray:
    return np.array([-np.inf if x is None else x for x in logits], dtype=np.float32)


def outcome(z: np.ndarray) -> dict[str, Any]:
    """What is recorded of the logits (V,) that an engine leaves."""
    kept = np.flatnonzero(z > -np.inf)
    weights = np.exp(z[kept].astype(np.float64) - z.max())
    return {"kept": kept.tolist(), "probs": [float(f"{p:.5g}") for p in weights / weights.sum()]}


N_SHUFFLES = 8


def relabelled(case: Case, new_id: np.ndarray) -> Case:
    """The same case with token i called new_id[i]."""
    n_vocab = len(case["logits"])
    logits: list[float | None] = [None] * n_vocab
    for token_id, z in enumerate(case["logits"]):
        logits[new_id[token_id]] = z
    params = dict(case["params"])
    if "logit_bias" in params:
        params["logit_bias"] = [[int(new_id[i]), bias] for i, bias in params["logit_bias"]]
    result = case | {
        "params": params,
        "logits": logits,
        "token_ids": [int(new_id[i]) for i in case["token_ids"]],
    }
    if "bad_word_ids" in case:
        result["bad_word_ids"] = [[int(new_id[i]) for i in word] for word in case["bad_word_ids"]]
    return result


def recorded(case: Case, run: Callable[[Case], np.ndarray]) -> Case:
    """The case with what an engine leaves of it, and whether another order of the vocabulary would tell."""
    z = run(case)
    result = case | outcome(z)
    if "breaker_ids" in case:
        return result  # a breaker is the vocabulary's, and keeps its id
    for seed in range(N_SHUFFLES):
        new_id = np.random.default_rng(seed).permutation(z.size)
        if not np.array_equal(z > -np.inf, run(relabelled(case, new_id))[new_id] > -np.inf):
            result["ties"] = True
    return result


def write(name: str, source: str, cases: list[Case]) -> None:
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    (DATA / name).write_text(f'{{"source": {json.dumps(source)}, "cases": [\n{lines}\n]}}\n')


def read(name: str) -> list[Case]:
    cases: list[Case] = json.loads((DATA / name).read_text())["cases"]
    return cases
