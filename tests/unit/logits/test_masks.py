"""Hard masks: what each bans, and who yields when they leave nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.errors import MaskConflict, NoCandidate
from unspool.logits.masks import MASKS
from unspool.logits.pipeline import process_by_stages
from unspool.params import DecodingParams
from unspool.rules import Rules
from unspool.types import Row

V = 6


def row(text=(1, 2), n_prompt=1, rules=None, **params):
    params = DecodingParams(**params)
    rules = {"banned_ids": frozenset(params.banned_token_ids), **(rules or {})}
    return Row(params, seed=1, branch=0, token_ids=tuple(text), n_prompt=n_prompt, rules=Rules(**rules))


def left(its_row):
    """Ids that every mask leaves, of a row of zeros."""
    z = np.zeros((1, V))
    for mask in MASKS:
        if mask.is_active(its_row.params):
            z = mask.apply(z, [its_row])
    return np.flatnonzero(z[0] > -np.inf).tolist()


def test_only_what_is_allowed_may_come_and_nothing_that_is_banned():
    assert left(row(allowed_token_ids=[4, 2, 0])) == [0, 2, 4]
    assert left(row(banned_token_ids=[4, 2, 0])) == [1, 3, 5]
    assert left(row(allowed_token_ids=[1, 2, 3], banned_token_ids=[3])) == [1, 2]


def test_a_bias_of_false_bans():
    assert left(row(logit_bias={3: False}, rules={"banned_ids": frozenset({3})})) == [0, 1, 2, 4, 5]


@pytest.mark.parametrize("bias", [False, -100])
def test_a_banned_id_never_appears(bias):
    """llama.cpp #19699 and #13605: a bias of -inf had no effect. A bias only makes unlikely; False bans."""
    z = np.array([[300, 0, 0, 0, 0, 0]], dtype=np.float32)
    rules = {"banned_ids": frozenset({0})} if bias is False else {"bias": ((0, -100.0),)}
    (processed,) = process_by_stages(z, [row(logit_bias={0: bias}, rules=rules, temperature=0)])
    assert (processed.chosen.token_id == 0) == (bias == -100)


@given(seed=st.integers(0, 2**32 - 1))
def test_a_masked_token_is_never_chosen(seed):
    rng = np.random.default_rng(seed)
    z = (rng.normal(size=(1, V)) * 20).astype(np.float32)
    its_row = row(
        rng.integers(0, V, 5).tolist(),
        banned_token_ids=rng.integers(0, V, 2).tolist(),
        bad_words="x",
        no_repeat_ngram_size=int(rng.integers(0, 3)),
        min_tokens=int(rng.integers(0, 9)),
        temperature=float(rng.choice([0, 0.5, 100])),
        rules={"bad_words": ((0,), (1, 2), (3, 4, 5)), "end_ids": frozenset({5})},
    )
    (processed,) = process_by_stages(z, [its_row])
    if isinstance(processed, MaskConflict):
        assert left(its_row) == []
    else:
        assert processed.chosen.token_id in left(its_row)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ([1], [0, 1, 2, 3, 4]),  # a word of one token is always banned
        ([1, 2], [0, 1, 2, 4]),
        ([2, 1, 4], [0, 1, 3, 4]),
        ([1, 4], [0, 1, 2, 3, 4]),
        ([], [0, 1, 2, 3, 4]),
    ],
)
def test_the_last_token_of_a_bad_word_is_banned_when_the_rest_was_just_written(text, expected):
    words = ((5,), (2, 3), (2, 1, 4, 2))
    assert left(row(text, 0, {"bad_words": words}, bad_words="x")) == expected


@pytest.mark.parametrize(
    ("n", "text", "expected"),
    [
        (1, [1, 2, 1], [0, 3, 4, 5]),
        (2, [1, 2, 1], [0, 1, 3, 4, 5]),
        (2, [1, 2, 1, 3, 1], [0, 1, 4, 5]),
        (3, [1, 2, 1], [0, 1, 2, 3, 4, 5]),
        (3, [1, 2, 3, 0, 1, 2], [0, 1, 2, 4, 5]),
        (2, [4, 4], [0, 1, 2, 3, 5]),
        (9, [1, 2], [0, 1, 2, 3, 4, 5]),
    ],
)
def test_no_run_of_n_tokens_is_written_twice(n, text, expected):
    assert left(row(text, no_repeat_ngram_size=n)) == expected


@pytest.mark.parametrize(
    ("n_output", "expected"), [(0, [1, 2, 4, 5]), (2, [1, 2, 4, 5]), (3, [0, 1, 2, 3, 4, 5])]
)
def test_nothing_ends_the_text_before_so_many_tokens_of_output(n_output, expected):
    its_row = row([1] * (7 + n_output), 7, {"end_ids": frozenset({0, 3})}, min_tokens=3)
    assert left(its_row) == expected


def test_min_tokens_yields_to_what_is_allowed():
    """vllm #53665: every token was masked, and a masked one came out."""
    its_row = row(allowed_token_ids=[3], min_tokens=9, rules={"end_ids": frozenset({0, 3})})
    assert left(its_row) == [3]
    assert process_by_stages(np.zeros((1, V), np.float32), [its_row])[0].chosen.token_id == 3


def test_min_tokens_yields_to_bans():
    its_row = row(banned_token_ids=[1, 2, 4, 5], min_tokens=9, rules={"end_ids": frozenset({0, 3})})
    assert left(its_row) == [0, 3]


@pytest.mark.parametrize(
    ("params", "rules", "names"),
    [
        (
            {"allowed_token_ids": [1, 2], "bad_words": "x"},
            {"bad_words": ((1,), (2,))},
            "allowed_token_ids and bad_words",
        ),
        (
            {"allowed_token_ids": [2], "no_repeat_ngram_size": 1, "banned_token_ids": [5], "min_tokens": 9},
            {},
            "allowed_token_ids and no_repeat_ngram_size",
        ),
        ({"banned_token_ids": list(range(V))}, {}, "banned_token_ids"),
        (
            {"logit_bias": dict.fromkeys(range(V), False)},
            {"banned_ids": frozenset(range(V))},
            "logit_bias",
        ),
        (
            {"banned_token_ids": list(range(V)), "bad_words": "x"},
            {"bad_words": tuple((i,) for i in range(V))},
            "banned_token_ids and bad_words",
        ),
    ],
)
def test_masks_that_leave_nothing_are_an_error_that_names_those_to_blame(params, rules, names):
    rows = [row(**params, rules=rules), row()]
    conflict, other = process_by_stages(np.zeros((2, V), np.float32), rows)
    assert isinstance(conflict, MaskConflict)
    assert conflict.code == "mask_conflict"
    assert str(conflict) == f"no token is left at position 2: {names} mask every one of them; loosen one"
    assert 0 <= other.chosen.token_id < V


def test_a_model_that_gives_nothing_is_not_blamed_on_the_masks():
    z = np.full((1, V), -np.inf, dtype=np.float32)
    (error,) = process_by_stages(z, [row(banned_token_ids=[1])])
    assert isinstance(error, NoCandidate)
