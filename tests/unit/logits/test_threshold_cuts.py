"""Top-n-sigma, epsilon and top-a: the specification's values, equality at the threshold, and slow twins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from stage_rows import kept_after, kept_ids, probs, probs_after, row, through

P4 = (0.1, 0.2, 0.3, 0.4)

rows_of_logits = st.lists(st.integers(-24, 24).map(lambda n: n / 4), min_size=1, max_size=40)


@pytest.mark.parametrize(
    ("n", "expected"), [(1, (0, 0, 0.428571, 0.571429)), (0, P4), (3, P4), (0.01, (0, 0, 0, 1))]
)
def test_top_n_sigma_has_the_values_of_the_specification(n, expected):
    assert probs_after(P4, top_n_sigma=n) == pytest.approx(expected, abs=1e-6)


def test_the_cut_of_top_n_sigma_is_that_of_the_specification():
    z = np.log(P4)
    assert (z.mean(), z.std(), z.max() - z.std()) == pytest.approx((-1.508072, 0.520626, -1.436917), abs=1e-6)


def test_masked_tokens_are_not_part_of_sigma():
    # sigma of 2, 1, 0 is .8165, and the cut 1.1019; counting the mask as 0 gives .9468, or no number at all.
    assert kept_after([2, 1, 0, -np.inf], top_n_sigma=1.1) == [0]


def test_top_n_sigma_keeps_equality_and_all_of_equal_logits():
    assert kept_after([0, 2], top_n_sigma=2) == [0, 1]  # sigma 1, distance 2
    assert kept_after([0, 2], top_n_sigma=1.999) == [1]
    assert kept_after([7, 7, 7], top_n_sigma=1e-9) == [0, 1, 2]


@given(rows_of_logits, st.floats(0.05, 3), st.sampled_from([1e-30, 1e-3, 0.2, 0.7, 3, 100]))
def test_the_set_of_top_n_sigma_does_not_depend_on_temperature(z, n, temperature):
    assert kept_after(z, top_n_sigma=n, temperature=temperature) == kept_after(z, top_n_sigma=n)


@given(rows_of_logits, st.floats(0.05, 3))
def test_top_n_sigma_keeps_what_is_near_enough_to_the_largest(z, n):
    distance = max(z) - np.array(z)
    assume(np.std(z) == 0 or np.abs(distance / np.std(z) - n).min() > 1e-5)
    assert kept_after(z, top_n_sigma=n) == np.flatnonzero(distance <= n * np.std(z)).tolist()


@pytest.mark.parametrize(
    ("epsilon", "kept"),
    [
        (0.05, [0, 1, 2, 3]),
        (0.1, [0, 1, 2, 3]),
        (0.1001, [1, 2, 3]),
        (0.2, [1, 2, 3]),
        (0.3, [2, 3]),
        (0.9, [3]),
    ],
)
def test_epsilon_drops_what_is_below_it_and_never_the_top(epsilon, kept):
    assert kept_after(np.log(P4), epsilon_cutoff=epsilon) == kept
    assert kept_after(np.log(P4).astype(np.float32), epsilon_cutoff=epsilon) == kept


def test_a_small_epsilon_is_as_sharp_as_a_large_one():
    p = np.array([1 - 3e-8, 2e-8, 1e-8])
    assert kept_after(np.log(p), epsilon_cutoff=1.001e-8) == [0, 1]
    assert kept_after(np.log(p), epsilon_cutoff=1e-8) == [0, 1, 2]


def test_of_equal_tops_below_epsilon_the_first_stays_or_all_where_the_preset_says_so():
    assert kept_after(np.zeros(4), epsilon_cutoff=0.5) == [0]
    assert kept_after(np.zeros(4), epsilon_cutoff=0.5, order="transformers") == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("a", "kept"), [(0.5, [0, 1, 2, 3]), (0.501, [0, 1]), (1, [0, 1]), (0.25, [0, 1, 2, 3])]
)
def test_top_a_has_the_values_of_the_specification(a, kept):
    # a = .5 puts the threshold at .5 * .5^2 = .125, and equality stays.
    assert kept_after(np.log([0.5, 0.25, 0.125, 0.125]), top_a=a) == kept
    assert kept_after(np.log([0.5, 0.25, 0.125, 0.125]).astype(np.float32), top_a=a) == kept


@given(rows_of_logits, st.floats(0.001, 1))
def test_epsilon_and_top_a_keep_what_reaches_their_threshold(z, x):
    p = probs(z)
    assume(np.abs(p / x - 1).min() > 1e-5)
    expected = set(np.flatnonzero(p >= x).tolist()) | {int(np.argmax(z))}
    assert set(kept_after(z, epsilon_cutoff=min(x, 0.999))) == expected or x > 0.999
    threshold = x * p.max() ** 2
    assume(np.abs(p / threshold - 1).min() > 1e-5)
    assert kept_after(z, top_a=x) == np.flatnonzero(p >= threshold).tolist()


@pytest.mark.parametrize("method", [{"epsilon_cutoff": 0.15}, {"eta_cutoff": 0.5}, {"top_a": 1}])
def test_each_sees_the_probabilities_that_the_method_before_it_left(method):
    # Of 8 candidates top-k leaves 4, with .1 .2 .3 .4 among themselves.
    z = np.log([*P4, 0.09, 0.09, 0.09, 0.09])
    cut = through(z, row(top_k=4, **method))
    assert kept_ids(cut) == kept_after(np.log(P4), **method)
