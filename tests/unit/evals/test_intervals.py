"""The bootstrap, against what is known without one."""

from __future__ import annotations

import pytest

from unspool.errors import BadRequest
from unspool.evals.intervals import bootstrap
from unspool.search.pass_at_k import wilson


def test_equal_values_leave_no_doubt():
    interval = bootstrap([0.25] * 7, seed=1)
    assert (interval.estimate, interval.low, interval.high, interval.confidence) == (0.25, 0.25, 0.25, 0.95)


def test_of_zeros_and_ones_it_is_near_the_score_interval():
    interval, score = bootstrap([1.0] * 60 + [0.0] * 40, seed=2), wilson(60, 100)
    assert interval.estimate == 0.6
    assert (interval.low, interval.high) == pytest.approx((score.low, score.high), abs=0.015)


def test_two_values_have_the_binomial_quantiles():
    interval = bootstrap([0.0, 1.0], seed=3, confidence=0.4)  # means 0, 1/2, 1 with 1/4, 1/2, 1/4
    assert (interval.low, interval.high) == (0.5, 0.5)
    assert bootstrap([0.0, 1.0], seed=3).high == 1.0


def test_the_seed_repeats_it_and_resamples_beyond_a_chunk_count():
    values = [i * i % 101 / 100 for i in range(60)]
    assert bootstrap(values, seed=4) == bootstrap(values, seed=4)
    assert bootstrap(values, seed=4, n_resamples=1001) != bootstrap(values, seed=4, n_resamples=1000)


@pytest.mark.parametrize(
    ("values", "how"), [([], {}), ([1.0], {"confidence": 1.0}), ([1.0], {"n_resamples": 0})]
)
def test_what_has_no_meaning_is_refused(values, how):
    with pytest.raises(BadRequest, match="a bootstrap needs values") as refused:
        bootstrap(values, seed=0, **how)
    assert refused.value.code == "bad_interval"
