"""What users of engines expect of penalties, bans and bias, from their complaints.

Penalties beside drafted tokens wait for speculative decoding, beside a grammar and in beams for those, and
a ban that rewinds the text for the search that can.
"""

from __future__ import annotations

import math

import pytest
from scripted import distribution, vocabulary_of, write
from toy_engine import alone, make_engine

from unspool.errors import MaskConflict
from unspool.params import DecodingParams
from unspool.types import Request

EQUAL = [0.2] * 5


def test_a_repetition_penalty_counts_a_token_once_however_often_it_occurred():
    once = distribution(EQUAL, history=[0, 1], repetition_penalty=2.0)
    often = distribution(EQUAL, history=[0, 0, 0, 1, 1], repetition_penalty=2.0)
    assert once == pytest.approx(often)


def test_a_repetition_penalty_can_be_kept_off_the_prompt():
    kept_off = distribution(
        EQUAL, history=[0, 1, 2], n_prompt=2, repetition_penalty=50, penalty_scope="output"
    )
    assert kept_off[0] == kept_off[1] == pytest.approx(0.25)
    assert kept_off[2] < 1e-9
    both = distribution(EQUAL, history=[0, 1, 2], n_prompt=2, repetition_penalty=50)
    assert both[3] == pytest.approx(0.5)


def test_a_repetition_penalty_can_be_kept_off_marks_and_newlines():
    kept_off = distribution(EQUAL, history=[0, 1, 2], repetition_penalty=50, penalty_exclude_ids=[0, 1])
    assert kept_off[0] == kept_off[1] == kept_off[3] == pytest.approx(0.25)


def test_a_repetition_penalty_can_be_limited_to_the_last_tokens():
    assert distribution(EQUAL, history=[0, 1, 2], repetition_penalty=50, penalty_window=1)[
        0
    ] == pytest.approx(0.25)


def test_frequency_and_presence_penalties_look_at_the_answer_only():
    untouched = distribution(EQUAL, history=[0, 0, 1], n_prompt=3, frequency_penalty=2, presence_penalty=2)
    assert list(untouched.values()) == pytest.approx(EQUAL)
    p = distribution(EQUAL, history=[3, 0, 0, 1], n_prompt=1, frequency_penalty=1, presence_penalty=0.5)
    assert p[0] / p[3] == pytest.approx(math.exp(-2.5))
    assert p[1] / p[3] == pytest.approx(math.exp(-1.5))


def test_a_penalty_and_its_reward_give_different_texts():
    base = DecodingParams(max_tokens=30, ignore_eos=True, seed=2)
    assert (
        alone([1, 2], base.replace(frequency_penalty=-2)).token_ids
        != alone([1, 2], base.replace(frequency_penalty=2)).token_ids
    )


def test_what_dry_reports_is_what_it_does():
    p = distribution([0.25] * 4, history=[0, 1, 2, 0, 1], dry_multiplier=1, dry_base=1.1)
    assert list(p.values()) == pytest.approx([0.296923, 0.296923, 0.109232, 0.296923], abs=1e-6)
    params = DecodingParams(
        dry_multiplier=5, dry_allowed_length=1, max_tokens=20, ignore_eos=True, seed=1, trace=True
    )
    engine = make_engine()
    engine.add(Request((1, 2, 3, 1, 2), params))
    traces = []
    while not engine.is_idle:
        traces += [trace for event in engine.step() for trace in event.trace]
    moved = [stage for trace in traces for stage in trace.stages if stage.stage == "dry" and stage.moved]
    assert moved
    assert all(m.logit_change < 0 for stage in moved for m in stage.moved)


VOCABULARY = vocabulary_of("a", "desc", "ribed", " described", " ", "b", "c")
A, DESC, RIBED, SPACED, SPACE, B, C = range(1, 8)


def test_a_bad_word_is_banned_with_and_without_a_space_before_it():
    for script in ([A, DESC, RIBED, B], [A, SPACED, B], [A, SPACE, DESC, RIBED, B]):
        told = write(script, VOCABULARY, bad_words=["described"], max_tokens=8)
        assert "described" not in told.text
        assert "described" in write(script, VOCABULARY, max_tokens=8).text


def test_the_first_part_of_a_bad_word_can_still_be_written():
    assert write([A, DESC, B], VOCABULARY, bad_words=["described"]).text == "adescb"


@pytest.mark.parametrize(
    "ban", [{"logit_bias": {B: False}}, {"banned_token_ids": [B]}, {"logit_bias": {"b": False}}]
)
def test_a_banned_token_never_appears_however_much_the_model_wants_it(ban):
    told = write([A, B, A, B, B], VOCABULARY, max_tokens=12, ignore_eos=True, **ban)
    assert B not in told.token_ids
    sampled = write([B] * 60, VOCABULARY, max_tokens=60, ignore_eos=True, temperature=5, seed=1, **ban)
    assert B not in sampled.token_ids


def test_a_bias_is_added_and_bans_nothing_by_itself():
    assert write([B] * 3, VOCABULARY, logit_bias={B: -19}, max_tokens=3).token_ids == (B, B, B)
    assert write([B] * 3, VOCABULARY, logit_bias={B: -21, A: 2}, max_tokens=3).token_ids == (A, A, A)


def test_masks_that_leave_nothing_end_the_request_and_name_the_parameters_to_blame():
    told = write([A] * 5, VOCABULARY, allowed_token_ids=[A, B], no_repeat_ngram_size=1, ignore_eos=True)
    assert told.token_ids == (A, B)
    assert told.last.finish_reason == "error"
    assert isinstance(told.last.error, MaskConflict)
    assert told.last.error.code == "mask_conflict"
    assert "allowed_token_ids and no_repeat_ngram_size" in str(told.last.error)


def test_min_tokens_yields_to_what_is_allowed_and_no_masked_token_is_written():
    told = write([A, A], VOCABULARY, allowed_token_ids=[0], min_tokens=5)
    assert (told.token_ids, told.last.finish_reason, told.last.stop) == ((), "stop", 0)


def test_a_request_whose_masks_conflict_leaves_the_others_alone():
    engine = make_engine()
    params = DecodingParams(temperature=0, max_tokens=6, ignore_eos=True)
    engine.add(Request((1, 2), params.replace(allowed_token_ids=[1], no_repeat_ngram_size=1)))
    engine.add(Request((1, 2), params))
    events = []
    while not engine.is_idle:
        events += engine.step()
    ids = tuple(i for event in events if event.request_id == 1 for i in event.token_ids)
    assert ids == alone([1, 2], params).token_ids
