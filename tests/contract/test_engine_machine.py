"""Promise 1 under stress: whatever is done to an engine, a request's answer is the one it gets alone."""

from __future__ import annotations

import numpy as np
import pytest
from engine_machine import Machine
from toy_engine import LETTERS, make_engine

N_SEEDS = 40


@pytest.mark.parametrize("seed", range(N_SEEDS))
def test_a_request_on_the_toy_runner_is_answered_as_if_alone(seed):
    rng = np.random.default_rng(seed)
    settings = {"n_pages": int(rng.integers(8, 40)), "page_size": int(rng.choice([2, 4, 8]))}
    engine = make_engine(n_rows=int(rng.integers(4, 40)), n_tasks=int(rng.integers(1, 5)), **settings)
    machine = Machine(rng, engine, lambda: make_engine(n_pages=256), LETTERS.vocab_size, 24, 12)
    machine.run(250)
    assert machine.compare() > 5
    assert engine.pool.n_live == 0
