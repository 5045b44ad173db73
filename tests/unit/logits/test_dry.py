"""DRY, against the values of docs/decoding.md and against its own rules on tiny texts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from stage_rows import wanting

from unspool.history import History
from unspool.history.dry import LARGEST_AMOUNT, amount_of
from unspool.logits.dry import Dry, longest_repeats
from unspool.logits.pipeline import process_by_stages, walk
from unspool.params import DecodingParams
from unspool.rules import Rules
from unspool.types import Row


def row(text, rules=None, **params):
    params = DecodingParams(**{"dry_multiplier": 1, "dry_base": 1.1, **params})
    return Row(params, seed=1, branch=0, token_ids=tuple(text), n_prompt=1, rules=rules or Rules())


def probs_after(p, its_row):
    z = Dry().apply(np.log(np.array([p])), [its_row])[0]
    return (np.exp(z) / np.exp(z).sum()).tolist()


@pytest.mark.parametrize(
    ("p", "text", "given", "expected"),
    [
        ([0.25] * 4, [0, 1], {}, [0.25] * 4),
        ([0.25] * 4, [0, 1, 2, 0, 1], {}, [0.296923, 0.296923, 0.109232, 0.296923]),
        (
            [0.2] * 5,
            [0, 1, 2, 0, 1],
            {"dry_multiplier": 2},
            [0.241818, 0.241818, 0.032727, 0.241818, 0.241818],
        ),
        ([0.2] * 5, [0, 1, 2, 3, 4, 0, 1], {"dry_allowed_length": 4}, [0.2] * 5),
    ],
)
def test_a_repeat_costs_what_the_specification_says(p, text, given, expected):
    assert probs_after(p, row(text, **given)) == pytest.approx(expected, abs=1e-6)


def test_a_breaker_resets_the_repeat():
    rules = Rules(dry_breaker_ids=frozenset({3}))
    assert probs_after([0.2] * 5, row([0, 1, 3, 4, 0, 1], rules)) == pytest.approx([0.2] * 5)
    assert longest_repeats(row([0, 1, 2, 0, 1], rules)) == {2: 2}


@pytest.mark.parametrize(
    ("text", "given", "expected"),
    [
        ([0, 0, 0], {}, {0: 2}),  # the span may overlap the suffix
        ([1, 2, 3, 5, 2, 3, 6, 1, 2, 3], {}, {5: 3, 6: 2}),  # each token by its longest
        ([1, 2, 3, 6, 2, 3, 6, 1, 2, 3], {}, {6: 3}),
        ([1, 2, 3, 5, 2, 3, 6, 1, 2, 3], {"dry_allowed_length": 3}, {5: 3}),
        ([1, 2, 3, 5, 2, 3, 6, 1, 2, 3], {"dry_window": 9}, {5: 2, 6: 2}),  # the 1 is out of it
        ([1, 2, 3, 5, 2, 3, 6, 1, 2, 3], {"dry_window": 6}, {6: 2}),
        ([1, 2, 3, 5, 2, 3, 6, 1, 2, 3], {"dry_window": 5}, {}),
        ([7, 5, 7], {"dry_allowed_length": 1}, {5: 1}),
        ([7], {"dry_allowed_length": 1}, {}),
        (([1, 2, 3] * 30)[:-1], {"order": "llama.cpp"}, {3: 61}),  # whose window is 64
    ],
)
def test_the_longest_repeat_of_every_token_counts(text, given, expected):
    assert longest_repeats(row(text, **given)) == expected


def test_nothing_repeats_across_a_run_of_tokens_that_holds_a_breaker():
    rules = Rules(dry_breaker_runs=((8, 9),))
    assert longest_repeats(row([1, 8, 9, 2, 3, 4, 1, 8, 9, 2, 3], rules)) == {4: 2}
    assert longest_repeats(row([1, 8, 9, 2, 3, 4, 1, 8, 9, 2], rules)) == {}
    assert longest_repeats(row([1, 9, 8, 2, 4, 1, 9, 8, 2], rules)) == {4: 4}


def test_a_breaker_is_never_the_token_that_goes_on_with_a_repeat():
    assert longest_repeats(row([1, 2, 3, 1, 2], Rules(dry_breaker_ids=frozenset({3})))) == {}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_longest_repeats_leave_a_penalised_token_finite(dtype):
    its_row = row([0, 1] * 400, dry_base=100, dry_multiplier=100)
    z = np.array([[1, 2, -np.inf]], dtype=dtype)
    result = Dry().apply(z, [its_row])[0]
    assert result[0] == pytest.approx(-LARGEST_AMOUNT)
    assert result[1:].tolist() == [2, -np.inf]


@pytest.mark.parametrize("base", [1, 1.0000001, 1.1, 1.75, 100])
def test_the_amount_grows_to_its_limit_and_stays_there(base):
    params = DecodingParams(dry_multiplier=0.8, dry_base=base)
    amounts = [amount_of(n, params) for n in (*range(2, 200), 1000, 10**5, 10**9)]
    assert amounts == sorted(amounts)
    assert amounts[0] == 0.8
    assert all(math.isfinite(amount) and amount <= LARGEST_AMOUNT for amount in amounts)


@pytest.mark.parametrize("temperature", [0, 1])
def test_what_is_reported_is_what_was_applied(temperature):
    """koboldcpp #1078: penalties were printed and not applied."""
    its_row = row([0, 1, 2, 0, 1], dry_multiplier=3, temperature=temperature)
    z = np.array([[0, 0, 2, -9]], dtype=np.float32)
    (passed,) = walk(z[0].astype(np.float64), its_row)
    assert (passed.stage.name, passed.before[2] - passed.after[2]) == ("dry", 3)
    history = History(its_row.params, its_row.rules, its_row.token_ids)
    assert [array.tolist() for array in history.dry_edits()] == [[2], [3]]
    (processed,) = process_by_stages(z, wanting([its_row]))
    assert processed.candidates.logits.tolist() == [0, 0, -1, -9]
    assert temperature or processed.chosen.token_id == 0
