"""Adaptive-p: the curve around the target, and a target that answers the text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stage_rows import probs, row, through

from unspool.history import History
from unspool.logits.adaptive import target_now
from unspool.logits.pipeline import process_by_stages
from unspool.params import DecodingParams
from unspool.rules import NO_RULES
from unspool.types import Row

P3 = np.log([0.6, 0.3, 0.1])


def test_it_has_the_values_of_the_specification():
    z = through(P3, row(adaptive_target=0.3))
    assert z == pytest.approx([0, 5, 7 / 3])
    assert probs(z) == pytest.approx([0.006261, 0.929177, 0.064562], abs=1e-6)


def asking(target, observed=(), decay=0.9):
    params = DecodingParams(adaptive_target=target, adaptive_decay=decay)
    history = History(params, NO_RULES, [])
    for p in observed:
        history.accept(0, p)
    return Row(params, 1, 0, (), 0, NO_RULES, history)


def test_the_target_answers_the_average_and_stays_a_probability():
    assert target_now(row(adaptive_target=0.3)) == pytest.approx(0.3)
    assert target_now(asking(0.3)) == pytest.approx(0.3)
    assert target_now(asking(0.3, [0.8])) == pytest.approx(0.3 - 0.1 * 0.5)
    assert target_now(asking(0.3, [0.8], decay=0)) == 0  # 2 * .3 - .8 is below it
    assert target_now(asking(0.9, [0.1], decay=0)) == 1


def test_what_is_observed_is_the_probability_before_the_transform():
    seen = {}
    for seed in range(200):
        given_row = Row(DecodingParams(adaptive_target=0.3), seed, 0, (), 0)
        (processed,) = process_by_stages(P3.astype(np.float32)[None], [given_row])
        seen[processed.chosen.token_id] = processed.chosen.observed
    assert seen[1] == pytest.approx(0.3, abs=1e-6)
    assert seen[2] == pytest.approx(0.1, abs=1e-6)


def test_probabilities_are_those_that_the_truncation_before_it_left():
    # Top-k 2 leaves 2/3 and 1/3.
    z = through(P3, row(adaptive_target=1 / 3, top_k=2))
    d = (2 / 3 - 1 / 3) / 0.3
    assert z.tolist() == pytest.approx([5 - 10 * d**2 / (1 + d), 5, -np.inf])


def test_a_text_gets_the_probability_that_was_asked_for():
    params = DecodingParams(adaptive_target=0.3, min_p=0.01)
    history = History(params, NO_RULES, [])
    rng = np.random.default_rng(0)
    seen = []
    for position in range(300):
        z = (rng.normal(size=(1, 50)) * 3).astype(np.float32)
        (processed,) = process_by_stages(z, [Row(params, 5, 0, range(position), 0, NO_RULES, history)])
        seen.append(processed.chosen.observed)
        history.accept(processed.chosen.token_id, processed.chosen.observed)
    assert np.mean(seen) == pytest.approx(0.3, abs=0.06)


@given(st.lists(st.integers(-40, 40).map(lambda n: n / 4), min_size=1, max_size=20), st.floats(0, 1))
def test_the_closest_to_the_target_has_the_largest_logit_and_no_one_goes(z, target):
    shaped = through(z, row(adaptive_target=target))
    distance = np.abs(probs(z) - target)
    assert np.isfinite(shaped).all()
    assert distance[shaped.argmax()] == pytest.approx(distance.min(), abs=1e-12)
    assert shaped.max() <= 5
