"""llama.cpp's part of bench/logits.py: do one job, print one line of JSON.

usage: python bench/logits_llama_cpp.py JOB.json

Its sampler chain in its usual order, through the C interface. Filling the array of candidates from the
logits, which `llama_sampler_sample` does for every token, is left off its clock.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from pathlib import Path
from typing import Any

import llama_cpp as lib
import numpy as np

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

CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


class Steps:
    """Applies a chain to rows in turn."""

    def __init__(self, rows: F32, samplers: list[Any], history_ids: list[int]) -> None:
        self.rows = rows
        self.chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
        for sampler in samplers:
            lib.llama_sampler_chain_add(self.chain, sampler)
        for token_id in history_ids:
            lib.llama_sampler_accept(self.chain, token_id)
        self.candidates = np.zeros(rows.shape[1], dtype=CANDIDATE)
        pointer = self.candidates.ctypes.data_as(ctypes.POINTER(lib.llama_token_data))
        self.array = lib.llama_token_data_array(data=pointer, size=0, selected=-1, sorted=False)

    def fill(self, i: int) -> None:
        self.candidates["id"] = np.arange(self.candidates.size)
        self.candidates["logit"] = self.rows[i % N_ROWS]
        self.array.size, self.array.selected, self.array.sorted = self.candidates.size, -1, False

    def __call__(self, i: int) -> float:
        self.fill(i)
        start = time.perf_counter()
        lib.llama_sampler_apply(self.chain, ctypes.byref(self.array))
        token_id = int(self.array.data[self.array.selected].id)
        lib.llama_sampler_accept(self.chain, token_id)
        return time.perf_counter() - start


def full_pipeline(rows: F32) -> Step:
    n_vocab = rows.shape[1]
    bias = biases(n_vocab)
    biased = (lib.llama_logit_bias * len(bias))(*bias.items())
    samplers = [
        lib.llama_sampler_init_logit_bias(n_vocab, len(bias), biased),
        lib.llama_sampler_init_penalties(n_vocab, N_HISTORY, REPETITION, FREQUENCY, PRESENCE),
        lib.llama_sampler_init_top_k(TOP_K),
        lib.llama_sampler_init_top_p(TOP_P, 1),
        lib.llama_sampler_init_min_p(MIN_P, 1),
        lib.llama_sampler_init_temp(TEMPERATURE),
        lib.llama_sampler_init_dist(1),
    ]
    return Steps(rows, samplers, history(n_vocab))


def temperature_alone(rows: F32) -> Step:
    samplers = [lib.llama_sampler_init_temp(TEMPERATURE), lib.llama_sampler_init_dist(1)]
    return Steps(rows, samplers, [])


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    job = json.loads(Path(sys.argv[1]).read_text())
    answer = measure(job, full_pipeline, temperature_alone)
    answer["program"] = f"llama-cpp-python {lib.__version__}"
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
