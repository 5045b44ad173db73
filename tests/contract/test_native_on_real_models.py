"""Promise 1 at the level of logits, on the quantized weights of the catalogue and on every instruction set.

The other contract tests run on float weights; these go through the integer kernels.
"""

from __future__ import annotations

import numpy as np
import pytest
from random_plans import Part, make_plan, pages_for, random_steps

from unspool.models.architectures import build_graph
from unspool.models.config import read_config
from unspool.models.weights import open_weights
from unspool.runners.native import NativeRunner, instruction_sets

pytestmark = pytest.mark.model

N_PAGES = 80
LENGTHS = (150, 33, 1, 8)  # the first spans two segments of attention


def make_runner(path, **settings) -> NativeRunner:
    source = open_weights(path)
    return NativeRunner(
        build_graph(read_config(source), source), source, n_pages=N_PAGES, **{"n_threads": 1, **settings}
    )


def random_tokens(length: int, seed: int) -> list[int]:
    return np.random.default_rng(seed).integers(1000, 40_000, length).tolist()


def alone(runner: NativeRunner, tokens: list[int]) -> np.ndarray:
    """(T, V) logits, computed token by token."""
    pages = range(pages_for(len(tokens), runner.page_size))
    return np.concatenate(
        [runner.forward(make_plan([Part([token], n_past, pages)])) for n_past, token in enumerate(tokens)]
    )


@pytest.fixture(scope="module", params=["smollm2-135m", "gemma3-270m"])
def path(request, model_path):
    return model_path(request.param)


@pytest.fixture(scope="module")
def expected(path):
    """Sequences with the logits of each position, one row a step on one thread."""
    sequences = [random_tokens(length, seed) for seed, length in enumerate(LENGTHS)]
    runner = make_runner(path)
    return sequences, [alone(runner, tokens) for tokens in sequences]


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("page_size", [16, 32])
def test_random_plans_give_the_bits_of_each_sequence_alone(path, expected, n_threads, page_size):
    sequences, logits = expected
    runner = make_runner(path, n_threads=n_threads, page_size=page_size)
    rng = np.random.default_rng(10 * n_threads + page_size)
    for step in random_steps(rng, sequences, page_size=page_size, n_pages=N_PAGES, max_chunk=64):
        for row, (sequence, position) in zip(runner.forward(step.plan), step.owners, strict=True):
            assert np.array_equal(row, logits[sequence][position]), (sequence, position)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_decode_rows_have_the_same_bits_in_batches_of_2_to_32(path, n_threads):
    runner = make_runner(path, n_threads=n_threads)
    sequences = [random_tokens(3, seed) for seed in range(32)]
    singles = [alone(runner, tokens)[-1] for tokens in sequences]
    for n_rows in (*range(2, 18), 23, 31, 32):
        for t in range(3):
            parts = [Part([tokens[t]], t, [b]) for b, tokens in enumerate(sequences[:n_rows])]
            logits = runner.forward(make_plan(parts))
        assert all(np.array_equal(row, single) for row, single in zip(logits, singles, strict=False))


@pytest.mark.parametrize("isa", instruction_sets())
def test_every_instruction_set_keeps_the_promise_and_agrees_with_the_widest(path, expected, isa):
    """The portable kernels round products and sums apart, and an 8-bit activation beside a boundary then
    falls to the other side: another rounding is allowed, another distribution is not."""
    sequences, widest = expected
    runner = make_runner(path, isa=isa, n_threads=2)
    tokens, wide = sequences[1][:12], widest[1][:12]
    rows = runner.forward(make_plan([Part(tokens, 0, [3])]))
    steps = [runner.forward(make_plan([Part([token], t, [5])])) for t, token in enumerate(tokens)]
    assert np.array_equal(np.concatenate(steps), rows)
    if isa == "portable":
        assert np.corrcoef(rows.ravel(), wide.ravel())[0, 1] > 0.998
    else:
        assert np.array_equal(rows, wide)
