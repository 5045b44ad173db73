"""XTC: who goes, who is spared, and a die that is the row's own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from stage_rows import in_order, kept_after, kept_ids, probs, row, through

from unspool.logits.orders import stages_for
from unspool.logits.pipeline import process_by_stages
from unspool.params import DecodingParams
from unspool.rng import Noise
from unspool.rules import Rules

P4 = (0.4, 0.3, 0.2, 0.1)
ALWAYS = {"xtc_probability": 1}


@pytest.mark.parametrize(
    ("threshold", "kept"),
    [(0.09, [3]), (0.19, [2, 3]), (0.29, [1, 2, 3]), (0.39, [0, 1, 2, 3]), (0, [3]), (1, [0, 1, 2, 3])],
)
def test_all_that_reach_the_threshold_go_but_the_least_likely_of_them(threshold, kept):
    assert kept_after(np.log(P4), **ALWAYS, xtc_threshold=threshold) == kept


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_exactly_at_the_threshold_reaches_it(dtype):
    z = np.log(P4).astype(dtype)
    assert kept_after(z, **ALWAYS, xtc_threshold=0.3) == [1, 2, 3]
    assert kept_after(z, **ALWAYS, xtc_threshold=0.2) == [2, 3]


def test_of_equals_the_last_in_order_stays():
    assert kept_after(np.log([0.3, 0.3, 0.3, 0.1]), **ALWAYS, xtc_threshold=0.25) == [2, 3]


def test_ends_of_the_text_and_newlines_never_go():
    rules = Rules(end_ids=frozenset({0, 77}), newline_ids=frozenset({2}))
    p = np.log([0.3, 0.25, 0.2, 0.15, 0.1])
    spared = through(p, row(**ALWAYS, xtc_threshold=0.12, rules=rules))
    assert kept_ids(spared) == [0, 2, 3, 4]
    # They count among the choices: with an end as the least likely, the one above it goes.
    assert kept_ids(through(np.log([0.6, 0.3, 0.1]), row(**ALWAYS, rules=Rules(frozenset({1}))))) == [1, 2]
    assert kept_ids(through(np.log([0.3, 0.6, 0.1]), row(**ALWAYS, rules=Rules(frozenset({1}))))) == [1, 2]


def test_token_ids_are_the_vocabularys_also_when_others_are_masked():
    z = [-np.inf, -np.inf, *np.log([0.5, 0.3, 0.2])]
    kept = through(z, row(**ALWAYS, xtc_threshold=0.1, rules=Rules(end_ids=frozenset({2}))))
    assert kept_ids(kept) == [2, 4]


def test_a_preset_may_let_them_go():
    rules = Rules(end_ids=frozenset({0}), newline_ids=frozenset({1}))
    z = np.log(P4)
    assert kept_ids(through(z, row(**ALWAYS, xtc_threshold=0.15, rules=rules))) == [0, 1, 2, 3]
    asking = row(**ALWAYS, xtc_threshold=0.15, rules=rules, order="llama.cpp")
    assert kept_ids(through(z, asking)) == [2, 3]


def test_xtc_is_off_at_temperature_zero():
    assert not stages_for(DecodingParams(temperature=0, **ALWAYS))
    z = np.log([P4]).astype(np.float32)
    (processed,) = process_by_stages(z, [row(temperature=0, **ALWAYS)])
    assert processed.chosen.token_id == 0


def falls(position=0, branch=0, seed=1, probability=0.5, z=None, **params):
    """Whether the row excludes its top choices."""
    asking = row(
        seed=seed, branch=branch, position=position, xtc_probability=probability, xtc_threshold=0.15, **params
    )
    return 0 not in kept_ids(through(np.log(P4) if z is None else z, asking))


def test_the_die_is_the_draw_of_seed_branch_and_position_and_nothing_else():
    for seed, branch, position in ((1, 0, 0), (1, 0, 1), (1, 3, 0), (2**64 - 1, 0, 9)):
        die = Noise(seed, branch, position, "xtc").uniform(np.array([0]))[0]
        assert falls(position, branch, seed, probability=np.nextafter(die, 1))
        assert not falls(position, branch, seed, probability=np.nextafter(die, 0))


def test_rows_of_a_batch_roll_their_own_dice():
    rows = [row(position=i, xtc_probability=0.5, xtc_threshold=0.15) for i in range(64)]
    z = np.tile(np.log(P4), (64, 1))
    (xtc,) = stages_for(rows[0].params)
    together = [0 not in kept_ids(one) for one in xtc.apply(z, rows)]
    assert together == [falls(i) for i in range(64)]
    assert 15 < sum(together) < 49  # 5 in 100 000 fair dice are outside


def test_the_die_does_not_see_the_logits_or_what_was_cut():
    z = [*np.log(P4), -3.0]
    alone = [falls(i) for i in range(40)]
    assert [falls(i, z=z, top_k=4) for i in range(40)] == alone
    assert [falls(i, z=np.log(P4) + 50) for i in range(40)] == alone


@given(st.lists(st.integers(-12, 12).map(lambda n: n / 4), min_size=1, max_size=20), st.floats(0.01, 0.6))
def test_the_stage_is_the_rule_written_as_a_loop(z, threshold):
    p = probs(z)
    assume(np.abs(p / threshold - 1).min() > 1e-5)
    top_choices = [i for i in in_order(z) if p[i] >= threshold]
    kept = [i for i in range(len(z)) if i not in top_choices[:-1]]
    assert kept_after(z, **ALWAYS, xtc_threshold=threshold) == kept
