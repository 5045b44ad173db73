"""Times between tokens."""

from __future__ import annotations

import pytest

from unspool.engine.gaps import Gaps
from unspool.types import InterToken


def gaps_of(*times_s: float) -> Gaps:
    gaps = Gaps()
    for at in times_s:
        gaps.accept(at)
    return gaps


@pytest.mark.parametrize("times_s", [(), (7.0,)])
def test_fewer_than_two_tokens_have_no_time_between(times_s):
    assert gaps_of(*times_s).summary() == InterToken(0, 0.0, 0.0, 0.0, 0.0)


def test_the_summary_is_of_the_times_from_one_token_to_the_next():
    found = gaps_of(10.0, 10.5, 10.75, 12.75).summary()
    assert found == InterToken(3, mean_ms=2750 / 3, p50_ms=500.0, p99_ms=2000.0, max_ms=2000.0)


def test_percentiles_are_values_that_occurred_by_nearest_rank():
    times, at = [0.0], 0.0
    for k in range(1, 201):  # gaps of 1, 2, ..., 200 s
        at += k
        times.append(at)
    found = gaps_of(*times).summary()
    assert (found.p50_ms, found.p99_ms, found.max_ms) == (100_000.0, 198_000.0, 200_000.0)


def test_a_fork_goes_its_own_way():
    parent = gaps_of(0.0, 1.0)
    child = parent.fork()
    child.accept(5.0)
    parent.accept(2.0)
    assert parent.summary().max_ms == 1000.0
    assert child.summary().max_ms == 4000.0
