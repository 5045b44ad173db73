"""The history of a text says what the stages work out from the text, wherever it has been on its way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool import _native
from unspool.history import History
from unspool.history.dry import amount_of, equal_before, equal_before_each
from unspool.history.occurrences import Occurrences
from unspool.logits.bad_words import BadWords
from unspool.logits.dry import longest_repeats
from unspool.logits.no_repeat_ngram import NoRepeatNgram
from unspool.logits.penalties import occurrences
from unspool.params import DecodingParams
from unspool.rules import Rules
from unspool.types import Row

V = 5

params = st.builds(
    DecodingParams,
    repetition_penalty=st.sampled_from([1, 1.3]),
    frequency_penalty=st.sampled_from([0, 1]),
    presence_penalty=st.sampled_from([0, 1]),
    penalty_scope=st.sampled_from(["default", "all", "prompt", "output"]),
    penalty_window=st.sampled_from([None, 1, 2, 5, 30]),
    penalty_exclude_ids=st.sampled_from([(), (1,), (0, 4)]),
    penalty_exclude_template=st.booleans(),
    dry_multiplier=st.sampled_from([0, 0.5]),
    dry_allowed_length=st.sampled_from([1, 2, 4]),
    dry_window=st.sampled_from([None, 1, 6, 30]),
    no_repeat_ngram_size=st.sampled_from([0, 1, 2, 3, 50]),
    order=st.sampled_from(["unspool", "llama.cpp"]),
)
rules = st.builds(
    Rules,
    bad_words=st.sampled_from([(), ((0,), (1, 2), (2, 1, 2), (2, 1, 3))]),
    dry_breaker_ids=st.sampled_from([frozenset(), frozenset({4})]),
    dry_breaker_runs=st.sampled_from([(), ((3, 0), (1, 1, 2))]),
    template_positions=st.sampled_from([frozenset(), frozenset({0, 2, 7})]),
)
tokens = st.integers(0, V - 1)
steps = st.lists(
    st.one_of(tokens, st.tuples(st.just("undo"), st.integers(1, 12)), st.just("fork")), max_size=40
)


def row_of(params, rules, prompt, output):
    return Row(params, 1, 0, (*prompt, *output), len(prompt), rules)


def said(history):
    """Counts by token of both kinds, edits, bans."""
    tally = {} if history.tally is None else history.tally.counts()
    assert all(repetition + additive > 0 for repetition, additive in tally.values()), "does not occur"
    counts = [{i: both[scope] for i, both in tally.items() if both[scope]} for scope in (0, 1)]
    edited, amounts = history.dry_edits()
    banned = history.banned_next()
    assert [array.dtype for array in (edited, amounts, banned)] == [np.int32, np.float64, np.int32]
    assert np.all(np.diff(edited) > 0)
    assert np.all(np.diff(banned) > 0)
    return *counts, dict(zip(edited.tolist(), amounts.tolist(), strict=True)), banned.tolist()


def worked_out(row):
    p = row.params
    counts = []
    for penalty, is_on in (
        ("repetition", p.repetition_penalty != 1),
        ("frequency", p.frequency_penalty or p.presence_penalty),
    ):
        ids, n = occurrences(row, penalty) if is_on else (np.empty(0), np.empty(0))
        counts.append(dict(zip(ids.tolist(), n.tolist(), strict=True)))
    edits = longest_repeats(row) if p.dry_multiplier else {}
    z = np.zeros((1, V))
    z = BadWords().apply(z, [row])
    if p.no_repeat_ngram_size:
        z = NoRepeatNgram().apply(z, [row])
    return (
        *counts,
        {token_id: amount_of(n, p) for token_id, n in edits.items()},
        np.flatnonzero(z[0] == -np.inf).tolist(),
    )


@given(params=params, rules=rules, prompt=st.lists(tokens, min_size=1, max_size=20), steps=steps)
def test_says_what_the_stages_work_out_whatever_was_accepted_undone_and_forked(params, rules, prompt, steps):
    history, output = History(params, rules, prompt), []
    assert said(history) == worked_out(row_of(params, rules, prompt, output))
    left_behind = []
    for step in steps:
        if step == "fork":
            left_behind.append((history, tuple(output)))
            history = history.fork()
        elif isinstance(step, tuple):
            n = min(step[1], len(output))
            history.rollback(n)
            output = output[: len(output) - n]
        else:
            history.accept(step)
            output.append(step)
        assert said(history) == worked_out(row_of(params, rules, prompt, output))
    for origin, its_output in left_behind:  # what a fork did is nothing to its origin
        assert said(origin) == worked_out(row_of(params, rules, prompt, its_output))


def test_keeps_nothing_for_parameters_that_ask_for_nothing():
    history = History(DecodingParams(temperature=0.7, top_k=40), Rules(), range(10**6))
    history.accept(1)
    assert [name for name, value in vars(history).items() if value] == ["_n_prompt"]
    assert said(history) == ({}, {}, {}, [])


def test_many_distinct_tokens_find_room():
    history = History(DecodingParams(frequency_penalty=1, penalty_window=300), Rules(), [0])
    for token_id in range(1000):
        history.accept(token_id)
    assert said(history)[1] == dict.fromkeys(range(700, 1000), 1)


def test_a_prompt_of_many_distinct_tokens_is_counted_whole():
    prompt = [*range(500), *range(250)]
    params = DecodingParams(repetition_penalty=2, presence_penalty=1, penalty_scope="all")
    expected = {i: 2 if i < 250 else 1 for i in range(500)}
    assert said(History(params, Rules(), prompt))[:2] == (expected, expected)


def test_a_history_keeps_its_tally_and_a_fork_has_its_own():
    history = History(DecodingParams(repetition_penalty=2), Rules(), [3, 1, 3])
    tally = history.tally
    fork = history.fork()
    history.accept(4)
    assert history.tally is tally
    assert tally.counts() == {3: (2, 0), 1: (1, 0), 4: (1, 0)}
    assert fork.tally.counts() == {3: (2, 0), 1: (1, 0)}


def test_a_tally_has_two_scopes():
    with pytest.raises(ValueError, match="no such scope"):
        _native.Tally().add(2, 1, 1)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=40))
def test_matches_measured_one_by_one_and_in_one_go_are_equal(text):
    def counted(end):
        n = 0
        while n < end and text[end - 1 - n] == text[-1 - n]:
            n += 1
        return n

    expected = [counted(end) for end in range(len(text))]
    assert equal_before_each(text) == expected
    assert [equal_before(text, end, 0) for end in range(len(text))] == expected


def test_a_text_of_nothing_but_repeats_is_measured_in_one_go():
    params = DecodingParams(dry_multiplier=1, dry_base=1)
    history = History(params, Rules(), [0, 1] * 5000)
    assert history.dry_edits()[0].tolist() == [0]
    history.accept(0)
    history.rollback(1)
    history.accept(0)
    assert history.dry_edits()[0].tolist() == [1]


class TestOccurrences:
    def test_two_runs_with_one_hash_are_told_apart(self, monkeypatch):
        monkeypatch.setattr("unspool.history.occurrences._PRIME", 3)  # nearly every hash collides
        text = np.random.default_rng(1).integers(0, 4, 200).tolist()
        runs = Occurrences(2, text[:50])
        for n in range(51, 201):
            runs.accept(text[:n])
            expected = [end for end in range(n - 1, 1, -1) if text[end - 2 : end] == text[n - 2 : n]]
            assert list(runs.ends(text[:n])) == expected

    def test_a_run_longer_than_the_text_has_not_occurred(self):
        runs = Occurrences(10**6, [1, 1])
        runs.accept([1, 1, 1])
        assert list(runs.ends([1, 1, 1])) == []
        runs.undo([1, 1, 1])
        assert list(runs.ends([1, 1])) == []


@pytest.mark.parametrize("n", [1, -1])
def test_more_than_was_written_cannot_be_undone(n):
    with pytest.raises(AssertionError, match="cannot undo"):
        History(DecodingParams(repetition_penalty=2), Rules(), [1, 2]).rollback(n)
