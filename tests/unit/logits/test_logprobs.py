"""Log-probabilities of one position, from logits and survivors alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.logits.logprobs import choice_logprobs, likeliest, prompt_logprobs
from unspool.types import Candidates


def spell(token_id):
    return f"t{token_id}", bytes([token_id])


def survivors(*ids, logits):
    return Candidates(np.array(ids), np.array(logits, dtype=np.float64))


def test_raw_and_final_stand_side_by_side_and_are_labelled():
    z = np.log(np.array([0.1, 0.2, 0.3, 0.4], dtype="f4"))
    found = choice_logprobs(z, survivors(1, 3, logits=[math.log(0.25), math.log(0.75)]), 1, 2, spell)
    assert (found.token.token_id, found.token.text, found.token.token_bytes) == (1, "t1", b"\x01")
    assert math.exp(found.token.logprob) == pytest.approx(0.2)
    assert math.exp(found.token.logprob_final) == pytest.approx(0.25)
    assert [entry.token_id for entry in found.top] == [3, 2]
    assert [entry.token_id for entry in found.top_final] == [3, 1]
    assert found.top[1].logprob_final == -math.inf, "token 2 did not survive"


def test_raw_values_do_not_depend_on_temperature():
    """Logits 1 0 -1 -2 keep the values of T = 1 beside those that were drawn from."""
    z = np.array([1, 0, -1, -2], dtype="f4")
    at_half = choice_logprobs(z, survivors(0, 1, 2, 3, logits=2 * z.astype("f8")), 0, 4, spell)
    weights = np.exp(z.astype("f8"))
    assert [math.exp(e.logprob) for e in at_half.top] == pytest.approx(weights / weights.sum())
    assert math.exp(at_half.token.logprob_final) == pytest.approx(weights[0] ** 2 / (weights**2).sum())


def test_with_0_only_the_chosen_token_is_told():
    found = choice_logprobs(np.zeros(4, "f4"), survivors(2, logits=[0.0]), 2, 0, spell)
    assert (found.top, found.top_final) == ((), ())
    assert (found.token.logprob, found.token.logprob_final) == (pytest.approx(-math.log(4)), 0.0)


def test_two_equal_tops_both_have_rank_1():
    z = np.array([2, 5, 5, 1, 5, 0], dtype="f4")
    ranks = [prompt_logprobs(z, token_id, 0, spell).rank for token_id in range(6)]
    assert ranks == [4, 1, 1, 5, 1, 6]


def test_equal_logits_are_listed_by_id():
    assert likeliest(np.array([1.0, 3.0, 3.0, 0.0, 3.0]), 2).tolist() == [1, 2]
    assert likeliest(np.array([1.0, 3.0, 3.0, 0.0, 3.0]), 9).tolist() == [1, 2, 4, 0, 3]


def test_a_prompt_has_raw_values_alone():
    found = prompt_logprobs(np.log(np.array([0.5, 0.25, 0.25], dtype="f4")), 1, 3, spell)
    assert [math.exp(entry.logprob) for entry in found.top] == pytest.approx([0.5, 0.25, 0.25])
    assert {entry.logprob_final for entry in (found.token, *found.top)} == {None}
    assert (found.rank, found.top_final) == (2, ())


def test_huge_logits_neither_overflow_nor_lose_a_value():
    z = np.array([3e38, 3e38, -3e38], dtype="f4")
    assert math.exp(prompt_logprobs(z, 0, 0, spell).token.logprob) == pytest.approx(0.5)
    assert prompt_logprobs(z, 2, 0, spell).token.logprob == pytest.approx(-6e38)


def test_logits_that_are_no_numbers_give_no_number_and_no_warning():
    assert math.isnan(prompt_logprobs(np.array([np.nan, 1], "f4"), 1, 0, spell).token.logprob)
    assert math.isnan(prompt_logprobs(np.array([np.inf, 1], "f4"), 1, 2, spell).token.logprob)


@settings(max_examples=40)
@given(st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=20), st.data())
def test_each_list_of_all_sums_to_1_and_is_ordered(values, data):
    z = np.array(values, dtype="f4")
    ids = sorted(data.draw(st.sets(st.integers(0, z.size - 1), min_size=1)))
    found = choice_logprobs(z, survivors(*ids, logits=z[ids]), ids[0], z.size, spell)
    assert sum(math.exp(e.logprob) for e in found.top) == pytest.approx(1, abs=1e-12)
    assert sum(math.exp(e.logprob_final) for e in found.top_final) == pytest.approx(1, abs=1e-12)
    assert [e.token_id for e in found.top] == sorted(range(z.size), key=lambda i: (-z[i], i))
    assert {e.token_id for e in found.top_final} == set(ids)
