"""Our part of bench/logits.py: do one job, print one line of JSON.

usage: python bench/logits_unspool.py JOB.json

What is timed is what a step of the engine does for a row: make the row, process it, and let the history take
the token in.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import unspool
from logits_workload import (
    F32,
    FREQUENCY,
    MIN_P,
    N_HISTORY,
    N_ROWS,
    PRESENCE,
    REPETITION,
    TEMPERATURE,
    TOP_K,
    TOP_P,
    Step,
    biases,
    history,
    measure,
)  # fmt: skip
from unspool.history import History
from unspool.logits import pipeline
from unspool.params import DecodingParams
from unspool.rules import Rules
from unspool.types import Processed, Row


def steps(rows: F32, params: DecodingParams, rules: Rules) -> Step:
    token_ids = history(rows.shape[1])
    state = History(params, rules, token_ids)
    n_prompt = len(token_ids)

    def step(i: int) -> float:
        at = i % N_ROWS
        start = time.perf_counter()
        row = Row(params, 1, 0, token_ids, n_prompt, rules, state)
        [done] = pipeline.process(rows[at : at + 1], [row])
        assert isinstance(done, Processed), done
        token_ids.append(done.chosen.token_id)
        state.accept(done.chosen.token_id, done.chosen.observed)
        return time.perf_counter() - start

    return step


def full_pipeline(rows: F32) -> Step:
    bias = biases(rows.shape[1])
    params = DecodingParams(
        repetition_penalty=REPETITION,
        frequency_penalty=FREQUENCY,
        presence_penalty=PRESENCE,
        penalty_scope="all",
        penalty_window=N_HISTORY,
        logit_bias=tuple(bias.items()),
        temperature=TEMPERATURE,
        top_k=TOP_K,
        top_p=TOP_P,
        min_p=MIN_P,
    )
    return steps(rows, params, Rules(bias=tuple(sorted(bias.items()))))


def temperature_alone(rows: F32) -> Step:
    return steps(rows, DecodingParams(temperature=TEMPERATURE), Rules())


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    job = json.loads(Path(sys.argv[1]).read_text())
    answer = measure(job, full_pipeline, temperature_alone)
    answer["program"] = f"unspool {unspool.__version__}"
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
