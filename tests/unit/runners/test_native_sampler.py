"""The sampler of a native runner works on the threads of its forward pass."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from stage_rows import wanting

from unspool import _native
from unspool.logits import fused
from unspool.params import DecodingParams
from unspool.types import Row

KINDS = (
    {"temperature": 0},
    {"top_k": 20, "top_p": 0.9},
    {"min_p": 0.02, "temperature": 1.3},
    {"mirostat": 2},
)


def threads_now():
    with Path("/proc/self/status").open() as status:
        return int(next(line for line in status if line.startswith("Threads:")).split()[1])


def rows(n):
    return [Row(DecodingParams(**KINDS[i % 4], seed=i), i, 0, (1, 2), 2) for i in range(n)]


def logits(n):
    return np.random.default_rng(n).standard_normal((n, 3000)).astype(np.float32) * 3


@pytest.mark.parametrize("n_threads", [1, 2, 3, 5])
@pytest.mark.parametrize("n_rows", [1, 2, 9])
def test_every_number_of_threads_gives_what_the_sampler_of_all_gives(n_threads, n_rows):
    own = _native.Engine(n_threads, "").sampler()
    z, asked = logits(n_rows), wanting(rows(n_rows))
    for mine, expected in zip(fused.process(z, asked, own=own), fused.process(z, asked), strict=True):
        assert mine.chosen == expected.chosen
        assert mine.candidates.token_ids.tolist() == expected.candidates.token_ids.tolist()
        assert mine.candidates.logits.tolist() == expected.candidates.logits.tolist()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="counts threads where Linux says")
def test_no_thread_is_started_beside_those_of_the_engine():
    engine = _native.Engine(2, "")
    own, before = engine.sampler(), threads_now()
    fused.process(logits(16), rows(16), own=own)
    assert threads_now() == before


def test_a_sampler_outlives_the_engine_that_made_it():
    own = _native.Engine(2, "").sampler()
    assert None not in fused.process(logits(4), rows(4), own=own)


def test_callers_take_turns():
    own, z, asked = _native.Engine(2, "").sampler(), logits(8), rows(8)
    expected = [made.chosen for made in fused.process(z, asked)]
    told = []

    def ask():
        for _ in range(20):
            told.append([made.chosen for made in fused.process(z.copy(), asked, own=own)])

    callers = [threading.Thread(target=ask) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert told == [expected] * 80
