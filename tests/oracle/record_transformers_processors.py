"""Records what transformers' logits processors make of random rows.

    PYTHONPATH=tests/support python tests/oracle/record_transformers_processors.py     # oracle environment

Writes tests/data/processors_of_transformers.json. Each processor runs alone over a grid of values and all
of them together, in the order of `generate`. test_processors_of_transformers.py asks the installed version
again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import transformers
from preset_cases import Case, random_logits, random_text, recorded, write
from transformers_processors import processed

N_VOCAB = 24
N_LARGE = 150  # more than the hundred that top-h looks at

ALONE: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("temperature", (0.3, 0.7, 2.0)),
    ("top_k", (1, 2, 5, 23, 50)),
    ("top_p", (0.1, 0.5, 0.8, 0.95)),
    ("min_p", (0.02, 0.1, 0.5, 1.0)),
    ("typical_p", (0.1, 0.3, 0.5, 0.9)),
    ("top_h", (0.2, 0.5, 0.9)),
    ("epsilon_cutoff", (0.01, 0.05, 0.3)),
    ("eta_cutoff", (0.01, 0.1, 0.5)),
    ("repetition_penalty", (0.8, 1.2, 2.0)),
    ("no_repeat_ngram_size", (1, 2, 3)),
)
ROWS_ALONE = 6
ROWS_TOGETHER = 100


def row(rng: np.random.Generator, params: dict[str, Any], n_vocab: int = N_VOCAB) -> Case:
    token_ids, n_prompt = random_text(rng, n_vocab)
    case: Case = {
        "params": params,
        "logits": random_logits(rng, n_vocab),
        "token_ids": token_ids,
        "n_prompt": n_prompt,
    }
    return case


def together(rng: np.random.Generator) -> Case:
    chosen = {name: values[rng.integers(len(values))] for name, values in ALONE if rng.random() < 0.35}
    chosen.pop("no_repeat_ngram_size", None)
    case = row(rng, chosen)
    if rng.random() < 0.3:
        ids = rng.choice(N_VOCAB, size=3, replace=False).tolist()
        chosen["logit_bias"] = [[token_id, float(rng.integers(-8, 9)) / 2] for token_id in sorted(ids)]
    if rng.random() < 0.2:
        case["bad_word_ids"] = [[case["token_ids"][-1], int(rng.integers(N_VOCAB))], [int(rng.integers(8))]]
    return case


def cases() -> list[Case]:
    rng = np.random.default_rng(3)
    made = [row(rng, {name: value}) for name, values in ALONE for value in values for _ in range(ROWS_ALONE)]
    made += [row(rng, {"top_h": value}, N_LARGE) for value in (0.3, 0.9, 0.98) for _ in range(2)]
    made += [together(rng) for _ in range(ROWS_TOGETHER)]
    return [recorded(case, processed) for case in made]


if __name__ == "__main__":
    write("processors_of_transformers.json", f"transformers {transformers.__version__}", cases())
