"""Choosing: ties, masks, the distribution, and the fast rule against the plain one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.errors import NoCandidate
from unspool.logits.choose import choose
from unspool.params import DecodingParams
from unspool.rng import Noise
from unspool.types import Row

GREEDY = DecodingParams(temperature=0)
SAMPLED = DecodingParams()


def row(params=SAMPLED, seed=0, position=0, branch=0):
    return Row(params, seed, branch, range(position), 0)


def plain(z, r):
    """Gumbel-max with a draw for every survivor: the slow twin."""
    ids = np.flatnonzero(z > -np.inf)
    scores = z[ids].astype(np.float64) + Noise(r.seed, r.branch, r.position, "choose").gumbel(ids)
    return int(ids[scores.argmax()])


def test_greedy_takes_the_lowest_id_among_equal_logits():
    assert choose(np.array([0, 7, 7, 7], dtype=np.float32), row(GREEDY)) == 1


def test_greedy_needs_no_seed():
    z = np.arange(8, dtype=np.float32)
    assert {choose(z, row(GREEDY, seed=s)) for s in range(20)} == {7}


@pytest.mark.parametrize("params", [GREEDY, SAMPLED])
@pytest.mark.parametrize(
    "logits",
    [[-np.inf, -np.inf], [np.nan, 1.0], [1.0, np.nan], [np.inf, 0.0]],
    ids=["masked", "nan", "nan2", "inf"],
)
def test_a_row_without_a_candidate_is_an_error(params, logits):
    with pytest.raises(NoCandidate, match="at position 3"):
        choose(np.array(logits, dtype=np.float32), row(params, position=3))


@settings(deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(0, 200))
def test_a_masked_token_is_never_chosen(seed, position):
    z = np.full(50, -np.inf, dtype=np.float32)
    z[[3, 30, 41]] = (-100, 2, 2)
    assert choose(z, row(seed=seed, position=position)) in {3, 30, 41}


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.3, 1.0, 4.0, 12.0, 1000.0]),
    st.sampled_from([0.0, 1e4]),
)
def test_the_rule_for_many_candidates_equals_the_plain_rule(seed, spread, shift):
    z = (np.random.default_rng(seed).normal(size=9000) * spread + shift).astype(np.float32)
    for position in range(3):
        r = row(seed=seed, position=position)
        assert choose(z, r) == plain(z, r)


def test_what_was_cut_does_not_change_the_noise_of_who_is_left():
    z = np.zeros(5000, dtype=np.float32)
    chosen = choose(z, row(seed=9))
    others_cut = np.full_like(z, -np.inf)
    others_cut[[chosen, 7, 4999]] = 0
    assert choose(others_cut, row(seed=9)) == chosen


def test_seed_branch_and_position_each_change_the_draw():
    z = np.zeros(1000, dtype=np.float32)
    tokens = {
        choose(z, row(seed=s, position=p, branch=b)) for s in range(3) for p in range(3) for b in range(3)
    }
    assert len(tokens) > 20


def test_frequencies_follow_the_softmax():
    # chi-square with 3 degrees of freedom; above 27.9 one time in 250 000 if the draws are right
    p = np.array([0.1, 0.2, 0.3, 0.4])
    z = np.log(p).astype(np.float32)
    n = 4000
    counts = np.bincount([choose(z, row(seed=1234, position=i)) for i in range(n)], minlength=4)
    assert ((counts - n * p) ** 2 / (n * p)).sum() < 27.9


def test_frequencies_of_the_rule_for_many_candidates_follow_the_softmax():
    # 5000 candidates in five groups of equal logits; 4 degrees of freedom, above 30.7 once in 280 000
    group_mass = np.array([0.05, 0.1, 0.15, 0.3, 0.4])
    z = np.log(np.repeat(group_mass / 1000, 1000)).astype(np.float32)
    n = 1500
    counts = np.bincount([choose(z, row(seed=77, position=i)) // 1000 for i in range(n)], minlength=5)
    assert ((counts - n * group_mass) ** 2 / (n * group_mass)).sum() < 30.7
