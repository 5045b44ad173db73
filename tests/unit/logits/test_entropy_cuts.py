"""Typical, top-h and eta, which look at the entropy: the specification's values, ties and slow twins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from stage_rows import in_order, kept_after, probs, probs_after

from unspool.logits.distribution import entropy, log_probs

P4 = (0.4, 0.3, 0.2, 0.1)
THREE = (0.4, 0.2, 0.2, 0.2)

rows_of_logits = st.lists(st.integers(-24, 24).map(lambda n: n / 4), min_size=1, max_size=40)


def slow_entropy(p):
    return -sum(x * np.log(x) for x in p if x > 0)


@given(rows_of_logits)
def test_entropy_is_minus_the_sum_of_p_ln_p(z):
    assert entropy(np.array(z)) == pytest.approx(slow_entropy(probs(z)), abs=1e-12)


@pytest.mark.parametrize(
    ("p", "tau", "expected"),
    [
        ((0.97, 0.01, 0.01, 0.01), 0.5, (1, 0, 0, 0)),
        (THREE, 0.5, (0, 1 / 3, 1 / 3, 1 / 3)),
        (THREE, 0.6, (0, 1 / 3, 1 / 3, 1 / 3)),  # .2 + .2 + .2 reaches .6
        (THREE, 0.4, (0, 0.5, 0.5, 0)),
        (THREE, 0.61, THREE),
    ],
)
def test_typical_has_the_values_of_the_specification(p, tau, expected):
    assert probs_after(p, typical_p=tau) == pytest.approx(expected, abs=1e-6)


def test_the_distances_of_typical_are_those_of_the_specification():
    z = np.log(THREE)
    assert entropy(z) == pytest.approx(1.332179, abs=1e-6)
    assert np.abs(-log_probs(z) - entropy(z))[:2] == pytest.approx([0.415888, 0.277259], abs=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_typical_breaks_ties_of_distance_by_the_order_whatever_the_last_bits_say(dtype):
    # H is 2.5 bits; .25 is 2 bits, .125 is 3, so all are half a bit away.
    z = np.log([0.125, 0.25, 0.125, 0.125, 0.25, 0.125]).astype(dtype)
    assert kept_after(z, typical_p=0.3) == [1, 4]
    assert kept_after(z, typical_p=0.6) == [0, 1, 4]
    assert kept_after(z, typical_p=0.6, order="llama.cpp") == [0, 1, 4]
    assert kept_after(z, typical_p=0.6, order="transformers") == [0, 1, 2, 3, 4, 5]


def test_a_preset_may_want_the_mass_above_tau_and_not_just_reached():
    assert kept_after(np.log(THREE), typical_p=0.4) == [1, 2]
    assert kept_after(np.log(THREE), typical_p=0.4, order="llama.cpp") == [1, 2, 3]


@given(rows_of_logits, st.floats(0.01, 0.99))
def test_typical_keeps_the_fewest_nearest_to_the_entropy(z, tau):
    p = probs(z)
    distance = np.round(np.abs(-np.log(p) - slow_entropy(p)), 5)
    nearest = sorted(in_order(z), key=lambda i: distance[i])
    before = np.concatenate(([0.0], np.cumsum(p[nearest])[:-1]))
    assume(np.abs(before - tau).min() > 1e-5)
    assume(all(z[a] == z[b] or abs(distance[a] - distance[b]) > 2e-5 for a in nearest for b in nearest))
    expected = [i for i, b in zip(nearest, before, strict=True) if b < tau]
    assert kept_after(z, typical_p=tau) == sorted(expected)


@pytest.mark.parametrize(
    ("h", "n_kept"),
    [(0.1, 1), (0.286, 1), (0.287, 1), (0.568, 1), (0.569, 2), (0.6, 2), (0.82, 2), (0.821, 3), (0.999, 3)],
)
def test_top_h_has_the_values_of_the_specification(h, n_kept):
    # Running fractions of the entropy: .286373 .568587 .820090 1.
    assert kept_after(np.log(P4), top_h=h) == list(range(n_kept))


def test_top_h_keeps_what_holds_exactly_its_share():
    assert kept_after(np.log((0.25,) * 4), top_h=0.5) == [0, 1]
    assert kept_after(np.log((0.25,) * 4).astype(np.float32), top_h=0.75) == [0, 1, 2]


def test_top_h_keeps_the_top_alone_when_it_has_all_the_probability():
    assert kept_after([0, 5000, 0], top_h=0.9) == [1]


def test_a_preset_of_top_h_looks_at_a_hundred_candidates_only():
    z = np.zeros(400)
    assert len(kept_after(z, top_h=0.5)) == 200
    assert len(kept_after(z, top_h=0.5, order="transformers")) == 50


@given(rows_of_logits, st.floats(0.01, 0.99))
def test_top_h_keeps_a_prefix_that_holds_at_most_its_share(z, h):
    p = probs(z)[in_order(z)]
    held = np.cumsum(-p * np.log(p)) / max(slow_entropy(p), 1e-300)
    assume(np.abs(held - h).min() > 1e-5)
    n_kept = 1 if len(z) == 1 else max(1, np.count_nonzero(held <= h))
    assert kept_after(z, top_h=h) == sorted(in_order(z)[:n_kept])


@pytest.mark.parametrize(
    ("eta", "kept"),
    [
        (0.05, [0, 1, 2, 3]),  # sqrt(.05) e^-H = .0622, so epsilon's own .05 is the lower
        (0.2, [0, 1, 2]),  # .12436 < .2
        (0.5, [0, 1, 2]),  # .19663 < .5
        (0.9, [0, 1]),  # .26381 < .9
    ],
)
def test_eta_lowers_its_threshold_by_the_entropy(eta, kept):
    h = slow_entropy(P4)
    threshold = min(eta, np.sqrt(eta) * np.exp(-h))
    assert [i for i, p in enumerate(P4) if p >= threshold] == kept
    assert kept_after(np.log(P4), eta_cutoff=eta) == kept


def test_eta_keeps_equality_and_the_top():
    # Uniform over n: e^-H = 1/n = p, and sqrt(eta) < 1, so nothing ever goes.
    assert kept_after(np.zeros(7), eta_cutoff=0.999999) == list(range(7))
    # H is 1.5 bits, so the threshold is sqrt(.5) 2^-1.5 = .25.
    assert kept_after(np.log([0.5, 0.25, 0.25]), eta_cutoff=0.5) == [0, 1, 2]
    assert kept_after(np.log([0.5, 0.25, 0.25]), eta_cutoff=0.501) == [0]
    assert kept_after([0, 5000, 0], eta_cutoff=0.9) == [1]
