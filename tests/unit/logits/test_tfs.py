"""Tail-free sampling: where the sorted probabilities stop bending."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from stage_rows import in_order, kept_after, probs

BENT = (0.5, 0.3, 0.1, 0.06, 0.04)  # differences .2 .2 .04 .02, bends 0 .16 .02, shares 0 .8889 1


@pytest.mark.parametrize(("z", "n_kept"), [(1e-9, 2), (0.5, 2), (0.88, 2), (0.89, 3), (0.999, 3)])
def test_candidates_stay_while_the_bends_up_to_them_are_within_the_share(z, n_kept):
    assert kept_after(np.log(BENT), tfs_z=z) == list(range(n_kept))


def test_the_first_stays_when_its_neighbour_has_the_bend():
    assert kept_after(np.log([0.1, 0.8, 0.1]), tfs_z=0.95) == [1]


def test_what_holds_exactly_its_share_stays():
    # Differences .3 .1 0 0, bends .2 .1 0, shares 2/3 1 1.
    assert kept_after(np.log([0.5, 0.2, 0.1, 0.1, 0.1]), tfs_z=2 / 3) == [0, 1]
    assert kept_after(np.log([0.5, 0.2, 0.1, 0.1, 0.1]).astype(np.float32), tfs_z=2 / 3) == [0, 1]


@pytest.mark.parametrize(
    "p", [(1,), (0.7, 0.3), (0.25,) * 4, (0.4, 0.3, 0.2, 0.1)], ids=["one", "two", "equal", "a straight line"]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_where_nothing_bends_there_is_no_tail(p, dtype):
    assert kept_after(np.log(p).astype(dtype), tfs_z=0.3) == list(range(len(p)))


def test_of_equal_probabilities_at_the_cut_the_lowest_ids_stay():
    assert kept_after(np.log([0.04, 0.2, 0.04, 0.6, 0.04, 0.08]), tfs_z=0.7) == [1, 3]
    z = [0, 0, 0, -20, -20, -20, -20]  # the bends are those of the third and of the fourth, half each
    assert kept_after(z, tfs_z=0.4) == [0, 1]


@given(st.lists(st.integers(-12, 12).map(lambda n: n / 4), min_size=3, max_size=30), st.floats(0.01, 0.99))
def test_the_stage_is_the_rule_written_as_a_loop(z, share):
    order = in_order(z)
    p = probs(z)[order]
    bends = [abs(p[i - 1] - 2 * p[i] + p[i + 1]) for i in range(1, len(p) - 1)]
    assume(sum(bends) > 1e-5 * p[0])
    kept, so_far = [order[0]], 0.0
    for i, bend in enumerate(bends, start=1):
        so_far += bend / sum(bends)
        assume(abs(so_far - share) > 1e-5)
        if so_far < share:
            kept.append(order[i])
    assert kept_after(z, tfs_z=share) == sorted(kept)
