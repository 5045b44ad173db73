"""Stochastic beam search: draws without replacement."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from chi_square import tail
from searching import PROMPT, answers_of, found, logprobs_after, params

from unspool.errors import BadRequest
from unspool.search.stochastic_beam import StochasticBeam, conditioned

ODDS = 1e-6  # of a false alarm, each test


def draw(k, seed, n_max=2, **asked):
    return found(StochasticBeam(k), asked={"seed": seed, "max_tokens": n_max, **asked})


def every_text(n_max):
    """{text: probability} of all texts of at most n_max tokens; 0 ends one."""
    texts = {}
    for n in range(1, n_max + 1):
        for ids in itertools.product(range(8), repeat=n):
            if 0 not in ids[:-1] and (ids[-1] == 0 or n == n_max):
                texts[ids] = np.exp(sum(logprobs_after(PROMPT + ids[:i])[t] for i, t in enumerate(ids)))
    return texts


def test_no_text_comes_twice_and_each_has_its_log_probability():
    probs = every_text(2)
    for seed in range(40):
        answers = draw(6, seed)
        assert len({ids for ids, _ in answers}) == 6
        for ids, score in answers:
            assert score == pytest.approx(np.log(probs[ids]))


def test_as_many_as_there_are_texts_is_all_of_them():
    probs = every_text(2)
    answers = found(StochasticBeam(len(probs)), asked={"max_tokens": 2, "seed": 3}, n_pages=512)
    assert {ids for ids, _ in answers} == set(probs)


@pytest.mark.parametrize("k", [1, 3])
def test_the_first_drawn_is_a_draw_from_the_model(k):
    probs, n = every_text(2), 600
    counts = Counter(draw(k, seed)[0][0] for seed in range(n))
    expected = {ids: n * p for ids, p in probs.items()}
    rare = [ids for ids, e in expected.items() if e < 8]
    observed = [counts[ids] for ids in probs if ids not in rare] + [sum(counts[ids] for ids in rare)]
    wanted = [expected[ids] for ids in probs if ids not in rare] + [sum(expected[ids] for ids in rare)]
    statistic = sum((o - e) ** 2 / e for o, e in zip(observed, wanted, strict=True))
    assert tail(statistic, len(observed) - 1) > ODDS


def test_two_are_drawn_as_if_one_after_the_other_without_putting_back():
    probs, n = every_text(1), 1200
    pairs = Counter(tuple(ids for ids, _ in draw(2, seed, n_max=1)) for seed in range(n))
    expected = {(a, b): n * p * q / (1 - p) for a, p in probs.items() for b, q in probs.items() if a != b}
    rare = [pair for pair, e in expected.items() if e < 8]
    observed = [pairs[pair] for pair in expected if pair not in rare] + [sum(pairs[pair] for pair in rare)]
    wanted = [expected[p] for p in expected if p not in rare] + [sum(expected[p] for p in rare)]
    statistic = sum((o - e) ** 2 / e for o, e in zip(observed, wanted, strict=True))
    assert tail(statistic, len(observed) - 1) > ODDS


def test_temperature_and_truncation_make_the_distribution_that_is_drawn_from():
    for events in answers_of(StochasticBeam(2), asked=params(top_k=2, temperature=0.5, seed=1)).values():
        for entry in (entry for event in events for entry in event.logprobs):
            assert entry.token.logprob_final > -np.inf
            assert len([a for a in entry.top_final if a.logprob_final > -np.inf]) <= 2


def test_at_temperature_0_nothing_is_drawn_and_the_likeliest_stay():
    first, second = (draw(5, seed, temperature=0) for seed in (1, 2))
    assert first == second
    probs = every_text(2)
    assert first[0][0] == max(probs, key=probs.get)


def test_conditioned_values_have_the_largest_given_and_keep_their_order():
    free = np.random.default_rng(0).normal(size=50) * 2
    values = conditioned(free, -3.0)
    assert values.max() == -3.0
    assert (np.argsort(values) == np.argsort(free)).all()
    assert np.isfinite(values).all()


def test_k_is_checked():
    with pytest.raises(BadRequest, match=r"k must be a whole number in \[1, 256\], got 0"):
        StochasticBeam(0)
