"""transformers' part of bench/logits.py: do one job, print one line of JSON.

usage: python bench/logits_transformers.py JOB.json

Its logits processors in the order of `generate`, softmax and torch.multinomial. It has no frequency and no
presence penalty, so it has two stages less to do.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch
import transformers
from transformers.generation import logits_process as processors

from logits_workload import (
    F32,
    MIN_P,
    N_ROWS,
    REPETITION,
    TEMPERATURE,
    TOP_K,
    TOP_P,
    Step,
    biases,
    history,
    measure,
)  # fmt: skip


def steps(rows: F32, chain: processors.LogitsProcessorList) -> Step:
    logits = torch.from_numpy(rows)
    input_ids = torch.tensor([history(rows.shape[1])])

    def step(i: int) -> float:
        at = i % N_ROWS
        start = time.perf_counter()
        scores = chain(input_ids, logits[at : at + 1].clone())
        int(torch.multinomial(torch.softmax(scores, dim=-1), 1))
        return time.perf_counter() - start

    return step


def full_pipeline(rows: F32) -> Step:
    bias = {(token_id,): value for token_id, value in biases(rows.shape[1]).items()}
    chain = [
        processors.SequenceBiasLogitsProcessor(bias),
        processors.RepetitionPenaltyLogitsProcessor(REPETITION),
        processors.TemperatureLogitsWarper(TEMPERATURE),
        processors.TopKLogitsWarper(TOP_K),
        processors.TopPLogitsWarper(TOP_P),
        processors.MinPLogitsWarper(MIN_P),
    ]
    return steps(rows, processors.LogitsProcessorList(chain))


def temperature_alone(rows: F32) -> Step:
    return steps(rows, processors.LogitsProcessorList([processors.TemperatureLogitsWarper(TEMPERATURE)]))


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    job = json.loads(Path(sys.argv[1]).read_text())
    torch.set_num_threads(job["n_threads"])
    with torch.inference_mode():
        answer = measure(job, full_pipeline, temperature_alone)
    answer["program"] = f"transformers {transformers.__version__}"
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
