"""Mirostat: who stays at a given mu, what it learns, and that texts get the surprise asked for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from stage_rows import kept_after, kept_ids, probs, row, through

from unspool.history import History
from unspool.logits.mirostat import zipf_k
from unspool.logits.orders import OBSERVERS
from unspool.logits.pipeline import process_by_stages
from unspool.params import DecodingParams
from unspool.rules import NO_RULES
from unspool.types import Row

HALVES = np.log([0.5, 0.25, 0.125, 0.125])  # surprises of 1, 2, 3 and 3 bits


def kept_at(mu, z=HALVES, version=2):
    """Survivors when mu, which starts at 2 tau, is so high."""
    return kept_after(z, mirostat=version, mirostat_tau=mu / 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("mu", "kept"),
    [(0.1, [0]), (1, [0]), (1.99, [0]), (2, [0, 1]), (2.9, [0, 1]), (3, [0, 1, 2, 3]), (50, [0, 1, 2, 3])],
)
def test_version_2_drops_what_surprises_more_than_mu_and_never_the_top(mu, kept, dtype):
    assert kept_at(mu, HALVES.astype(dtype)) == kept


def test_of_equal_tops_above_mu_the_first_stays():
    assert kept_at(0.5, np.zeros(4)) == [0]


def learned(token_id, **params):
    """mu after a token was chosen, by the way that the engine goes."""
    asked = DecodingParams(mirostat=2, mirostat_tau=1, mirostat_eta=0.1, **params)
    history = History(asked, NO_RULES, [])
    z = HALVES.astype(np.float32)[None]
    for seed in range(200):
        (processed,) = process_by_stages(z, [Row(asked, seed, 0, (), 0, NO_RULES, history)])
        if processed.chosen.token_id == token_id:
            history.accept(token_id, processed.chosen.observed)
            return history.running.value
    raise AssertionError(f"{token_id} was never chosen")


@pytest.mark.parametrize(("token_id", "mu"), [(0, 2.0), (1, 1.9)])
def test_mu_learns_the_surprise_before_the_cut(token_id, mu):
    assert learned(token_id) == pytest.approx(mu, abs=1e-6)


@pytest.mark.parametrize(("token_id", "mu"), [(0, 2.041504), (1, 1.941504)])
def test_a_preset_may_learn_the_surprise_after_the_cut(token_id, mu):
    assert learned(token_id, order="llama.cpp") == pytest.approx(mu, abs=1e-6)


def test_mu_is_the_branchs_own():
    params = DecodingParams(mirostat=2, mirostat_tau=1, mirostat_eta=1)
    surprised, other = History(params, NO_RULES, []), History(params, NO_RULES, [])
    surprised.accept(3, 2.5)  # mu falls from 2 to .5
    rows = [Row(params, 1, 0, (), 0, NO_RULES, history) for history in (surprised, other, None)]
    cut = OBSERVERS["mirostat"].apply(np.array([HALVES] * 3), rows)
    assert [kept_ids(z) for z in cut] == [[0], [0, 1], [0, 1]]


@pytest.mark.parametrize("version", [1, 2])
def test_a_text_gets_the_surprise_that_was_asked_for(version):
    params = DecodingParams(mirostat=version, mirostat_tau=3, mirostat_eta=0.2)
    history = History(params, NO_RULES, [])
    z = np.log(1 / np.arange(1, 3001) ** 1.1).astype(np.float32)[None]
    surprises = []
    for position in range(400):
        (processed,) = process_by_stages(z, [Row(params, 5, 0, range(position), 0, NO_RULES, history)])
        surprises.append(processed.chosen.observed)
        history.accept(processed.chosen.token_id, processed.chosen.observed)
    # mu moved by eta times the sum of the errors; 0.2 bits on average are a mu within 16 of its start.
    assert np.mean(surprises) == pytest.approx(3, abs=0.2)
    assert -math.log2(probs(z[0])[0]) < 3 < -(probs(z[0]) * np.log2(probs(z[0]))).sum()  # it took steering


@pytest.mark.parametrize(
    ("weights", "mu", "k"),
    [
        (1 / np.arange(1, 5), 1, 1),  # s = 1: k = 2^mu / ln 4 = 1.44
        (1 / np.arange(1, 5), 2, 2),  # 2.89
        (1 / np.arange(1, 5), 2.1, 3),  # 3.09
        (1 / np.arange(1, 5) ** 2, 2, 2),  # s = 2: k = (2^mu / (1 - 1/4))^(1/2) = 2.31
        (1 / np.arange(1, 5) ** 2, 3, 3),  # 3.27
        (1 / np.arange(1, 5) ** 2, 9, 4),  # never more than there are
        (1 / np.arange(1, 1001) ** 0.5, 3, 1),  # s = .5: (.5 * 8 / 30.6)^2 < 1, and one stays
        (1 / np.arange(1, 1001) ** 0.5, 7, 4),  # (.5 * 128 / 30.623)^2 = 4.37
        (np.full(9, 1.0), 2.9, 1),  # s = 0: one below 2^mu = n - 1, all above
        (np.full(9, 1.0), 3.01, 9),
    ],
)
def test_version_1_keeps_the_k_of_the_formula(weights, mu, k):
    assert zipf_k(np.log(weights), mu) == k
    assert kept_at(mu, np.log(weights), version=1) == list(range(k))


def test_the_exponent_is_that_of_the_first_hundred():
    head = np.log(1 / np.arange(1, 101) ** 2.0)
    tail = np.full(900, head[-1] - 30)
    z = np.concatenate([head, tail])
    k = math.sqrt(2**8 / (1 - 1 / 1000))
    assert zipf_k(np.random.default_rng(0).permutation(z), 8) == math.floor(k)


@pytest.mark.parametrize("spread", [1e-12, 1e-3, 1, 30, 1e6, 1e30, 1e300])
@pytest.mark.parametrize("mu", [-1e6, -3, 0, 1e-9, 5, 1e6])
def test_k_is_a_count_whatever_the_curve(spread, mu):
    z = np.random.default_rng(1).normal(size=300) * spread
    assert 1 <= zipf_k(z, mu) <= 300
    assert zipf_k(np.array([0.0, spread]), mu) in (1, 2)


def test_an_exponent_next_to_one_gives_what_one_gives():
    exact = 2**6 / math.log(500)
    for s in (1 - 1e-9, 1, 1 + 1e-15, 1 + 1e-9):
        assert zipf_k(-s * np.log(np.arange(1, 501)), 6) == math.floor(exact)


def test_temperature_comes_before_mirostat():
    z = np.log([0.4, 0.3, 0.2, 0.1])
    heated = through(z, row(temperature=0.5))
    assert kept_after(z, temperature=0.5, mirostat=2, mirostat_tau=0.5) == kept_at(1, heated)
