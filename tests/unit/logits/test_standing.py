"""Rows that stand are asked step after step, and answer what rows that are made anew do."""

from __future__ import annotations

import numpy as np
import pytest

from unspool import _native
from unspool.errors import UnspoolError
from unspool.history import History
from unspool.logits import pipeline
from unspool.logits.standing import StandingRows
from unspool.params import DecodingParams
from unspool.rules import Rules
from unspool.types import Row

V, N_STEPS = 300, 25
PROMPT = [5, 1, 7, 1, 7]
KINDS = {
    "greedy": {"temperature": 0},
    "plain": {},
    "cut": {"top_k": 20, "top_p": 0.9, "min_p": 0.01, "repetition_penalty": 1.3},
    "additive in a window": {"frequency_penalty": 1, "presence_penalty": 0.5, "penalty_window": 4},
    "dry": {"dry_multiplier": 2, "dry_allowed_length": 1, "repetition_penalty": 1.1},
    "n-grams": {"no_repeat_ngram_size": 2},
    "mirostat": {"mirostat": 2},
    "adaptive": {"adaptive_target": 0.4},
    "nobody is left": {"allowed_token_ids": [2, 3], "no_repeat_ngram_size": 1},
}


def new_rows(kinds):
    """One of each kind, with a text and a history of its own that grow."""
    rows = []
    for seed, kind in enumerate(kinds):
        params = DecodingParams(**KINDS[kind])
        history = History(params, Rules(), PROMPT)
        rows.append(Row(params, seed, seed % 3, PROMPT.copy(), len(PROMPT), Rules(), history))
    return rows


def logits_of(step, n_rows):
    return np.random.default_rng(step).normal(scale=3, size=(n_rows, V)).astype(np.float32)


def told(made):
    return str(made) if isinstance(made, UnspoolError) else (made.chosen.token_id, made.chosen.observed)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("kinds", [[*KINDS], [*KINDS][:-1], *([kind] for kind in KINDS)])
def test_every_step_says_what_the_stages_say(kinds, fused, monkeypatch):
    monkeypatch.setattr(pipeline, "IS_FUSED", fused)
    rows = new_rows(kinds)
    standing = StandingRows(rows)
    for step in range(N_STEPS):
        logits = logits_of(step, len(rows))
        before = logits.tobytes()
        expected = [told(made) for made in pipeline.process_by_stages(logits, rows)]
        if refusals := [one for one in expected if isinstance(one, str)]:
            with pytest.raises(UnspoolError) as caught:
                standing.choose(logits)
            assert str(caught.value) == refusals[0]
        else:
            for choice, one in zip(standing.choose(logits), expected, strict=True):
                assert choice == pytest.approx(one)
        assert logits.tobytes() == before
        for row, one in zip(rows, expected, strict=True):
            token_id, observed = (9, None) if isinstance(one, str) else one
            row.token_ids.append(token_id)
            row.history.accept(token_id, observed)


def test_asking_twice_is_the_same_answer():
    rows = new_rows([*KINDS][:-1])
    standing, logits = StandingRows(rows), logits_of(1, len(rows))
    assert standing.choose(logits) == standing.choose(logits)


def test_logits_that_may_not_be_written_to_are_refused():
    rows, logits = new_rows(["cut", "dry"]), logits_of(1, 2)
    logits.flags.writeable = False
    with pytest.raises(TypeError):
        StandingRows(rows).choose(logits)


def test_texts_that_do_not_grow_are_refused():
    (row,) = new_rows(["cut"])
    fixed = Row(row.params, 1, 0, tuple(PROMPT), len(PROMPT), Rules(), row.history)
    with pytest.raises(AssertionError, match="a text that grows"):
        StandingRows([fixed])
    with pytest.raises(AssertionError, match="a history that grows"):
        StandingRows([Row(row.params, 1, 0, row.token_ids, len(PROMPT))])


def test_the_native_rows_refuse_what_does_not_fit():
    sampler, rows = (
        _native.Sampler(1, ""),
        _native.StandingRows([(_native.Program(True), 1, 0, 2, [1, 2], None)]),
    )
    assert sampler.choose(np.zeros((1, 4), np.float32), rows, []) == [(0, None)]
    with pytest.raises(ValueError, match="one row for each line"):
        sampler.choose(np.zeros((2, 4), np.float32), rows, [])
    with pytest.raises(ValueError, match="no row 1"):
        sampler.choose(np.zeros((1, 4), np.float32), rows, [(1, 0.0, None, None)])
