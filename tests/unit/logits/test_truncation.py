"""Top-k, top-p and min-p: the values of the specification, ties, crossings and slow twins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from stage_rows import in_order, kept_ids, probs, row, through

from unspool.logits.orders import stages_for
from unspool.params import DecodingParams

P4 = (0.1, 0.2, 0.3, 0.4)


def cut(logits, **params):
    """What the stages make of one row of logits (V,)."""
    return through(np.asarray(logits, dtype=np.float32), row(**params))


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"top_k": 1}, (0, 0, 0, 1)),
        ({"top_k": 3}, (0, 0.22222, 0.33333, 0.44444)),
        ({"top_k": 0}, P4),
        ({"top_p": 0.7}, (0, 0, 0.428571, 0.571429)),
        ({"top_p": 0.8}, (0, 0.22222, 0.33333, 0.44444)),
        ({"top_p": 1}, P4),
        ({"top_p": 1e-9}, (0, 0, 0, 1)),
        ({"min_p": 0.24}, P4),
        ({"min_p": 0.25}, P4),
        ({"min_p": 0.26}, (0, 0.22222, 0.33333, 0.44444)),
        ({"min_p": 0.49}, (0, 0.22222, 0.33333, 0.44444)),
        ({"min_p": 0.5}, (0, 0.22222, 0.33333, 0.44444)),
        ({"min_p": 0.51}, (0, 0, 0.428571, 0.571429)),
        ({"min_p": 0.74}, (0, 0, 0.428571, 0.571429)),
        ({"min_p": 0.75}, (0, 0, 0.428571, 0.571429)),
        ({"min_p": 0.76}, (0, 0, 0, 1)),
        ({"min_p": 1}, (0, 0, 0, 1)),
    ],
)
def test_values_of_the_specification(params, expected):
    assert probs(cut(np.log(P4), **params)) == pytest.approx(expected, abs=1e-5)


def test_ties_at_the_edge_of_top_k_go_to_the_lowest_ids():
    assert kept_ids(cut([1, 1, 1, 0], top_k=2)) == [0, 1]


def test_ties_at_the_edge_of_top_p_go_to_the_lowest_ids():
    assert kept_ids(cut([0, 0, 0, 0], top_p=0.5)) == [0, 1]


def test_each_method_sees_the_mass_that_the_one_before_left():
    # .35 .25 .20 .05 .03 ... : top-k 4 leaves .412 .294 .235 .059, of which three reach .82
    p = [0.35, 0.25, 0.20, 0.05, 0.03, 0.03, 0.03, 0.03, 0.03]
    assert kept_ids(cut(np.log(p), top_k=4, top_p=0.82)) == [0, 1, 2]


def test_truncation_is_off_at_temperature_zero_and_when_every_value_is_neutral():
    assert not stages_for(DecodingParams(temperature=0, top_k=5, top_p=0.5, min_p=0.5))
    assert not stages_for(DecodingParams())
    assert [stage.name for stage in stages_for(DecodingParams(min_p=0.1))] == ["min_p"]


logits_rows = st.lists(
    st.one_of(st.integers(-24, 24).map(lambda n: n / 4), st.just(-np.inf)), min_size=1, max_size=60
).filter(lambda z: max(z) > -np.inf)


@given(logits_rows, st.integers(1, 70))
def test_top_k_keeps_the_first_k_in_order(z, k):
    alive = [i for i in in_order(z) if z[i] > -np.inf]
    assert kept_ids(cut(z, top_k=k)) == sorted(alive[:k])


@given(logits_rows, st.floats(0.01, 0.99))
def test_top_p_keeps_the_fewest_whose_mass_reaches_p(z, p):
    order = [i for i in in_order(z) if z[i] > -np.inf]
    mass = probs(np.array(z))[order]
    before = np.concatenate(([0.0], np.cumsum(mass)[:-1]))
    assume(np.abs(before - p).min() >= 1e-5)  # nearer than that the slack decides
    kept = {i for i, b in zip(order, before, strict=True) if b < p}
    assert set(kept_ids(cut(z, top_p=p))) == kept


@given(logits_rows, st.floats(0.001, 1.0))
def test_min_p_keeps_what_has_that_share_of_the_largest(z, m):
    share = np.exp(np.array(z) - max(z))
    assume(m == 1 or np.abs(share - m).min() >= 1e-5)
    kept = [i for i, s in enumerate(share) if s >= m]
    assert kept_ids(cut(z, min_p=m)) == kept


def test_a_single_survivor_needs_no_further_method():
    assert kept_ids(cut([5, 0, 0], top_k=1, top_p=0.1, min_p=0.9)) == [0]


@pytest.mark.parametrize(
    ("order", "survivors"), [("unspool", [0, 1]), ("llama.cpp", [0, 1]), ("vllm", [0, 1, 2])]
)
def test_equals_of_the_kth_logit_stay_where_the_preset_keeps_them(order, survivors):
    assert kept_ids(cut([1, 1, 1, 0], top_k=2, order=order)) == survivors
