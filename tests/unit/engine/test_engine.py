"""The engine on the toy runner: a request's tokens depend on the request alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_engine import LETTERS, Told, alone, drain, make_engine, run

from unspool.engine.engine import Engine
from unspool.engine.limits import Limits
from unspool.errors import BadRequest, CapacityError, ContextOverflow
from unspool.logits import pipeline
from unspool.logits.standing import StandingRows
from unspool.params import DecodingParams
from unspool.runners.toy import ToyRunner
from unspool.search.sample import Sample
from unspool.types import Request

GREEDY = DecodingParams(temperature=0, max_tokens=6, ignore_eos=True)

prompts = st.lists(st.integers(1, 7), min_size=1, max_size=12)
params_strategy = st.builds(
    DecodingParams,
    temperature=st.sampled_from([0, 0.5, 1, 3]),
    top_k=st.sampled_from([0, 3]),
    top_p=st.sampled_from([0.8, 1.0]),
    min_p=st.sampled_from([0.0, 0.1]),
    repetition_penalty=st.sampled_from([1, 1.5]),
    presence_penalty=st.sampled_from([0, 0.5]),
    penalty_window=st.sampled_from([None, 3]),
    dry_multiplier=st.sampled_from([0, 1]),
    no_repeat_ngram_size=st.sampled_from([0, 3]),
    bad_words=st.sampled_from([(), ("ba",)]),
    logit_bias=st.sampled_from([(), {"b": 2, 3: False}]),
    seed=st.integers(0, 2**64 - 1),
    max_tokens=st.sampled_from([1, 2, 7, 20, None]),
    stop=st.sampled_from([(), ("ab",), ("世", "b a"), ("\n", "aa")]),
    stop_regex=st.sampled_from([(), ("a+b",), ("b.*世", r"a\b")]),
    loop_min_count=st.sampled_from([0, 0, 2, 3]),
    stop_token_ids=st.sampled_from([(), (3,)]),
    ignore_eos=st.booleans(),
    include_stop=st.booleans(),
)


def test_greedy_text_is_the_argmax_of_the_sequence_so_far():
    runner = ToyRunner()
    told = alone([1, 2, 3], GREEDY)
    sequence = [1, 2, 3]
    for token_id in told.token_ids:
        assert token_id == int(np.argmax(runner.logits_of(sequence)))
        sequence.append(token_id)
    assert len(told.token_ids) == 6
    assert told.last.finish_reason == "length"


def test_greedy_is_the_same_every_time_and_reports_no_seed():
    results = {alone([1, 2], GREEDY).result for _ in range(3)}
    assert len(results) == 1
    assert alone([1, 2], GREEDY.replace(seed=7)).last.seed is None


def test_a_seed_repeats_its_tokens_and_another_seed_gives_others():
    params = DecodingParams(max_tokens=20, ignore_eos=True, temperature=2)
    by_seed = [alone([1], params.replace(seed=seed)).token_ids for seed in (1, 1, 2, 3)]
    assert by_seed[0] == by_seed[1]
    assert len(set(by_seed)) == 3


def test_a_seed_that_was_drawn_is_reported_and_repeats_the_tokens():
    params = DecodingParams(max_tokens=20, ignore_eos=True)
    first = alone([1], params)
    assert alone([1], params.replace(seed=first.last.seed)).result == first.result
    assert alone([1], params).last.seed != first.last.seed


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(prompts, params_strategy), min_size=1, max_size=6), st.integers(1, 20))
def test_requests_together_give_what_each_gives_alone(requests, n_rows):
    together = run(make_engine(n_rows=n_rows, n_pages=40), requests)
    for told, (prompt, params) in zip(together, requests, strict=True):
        assert told.result == alone(prompt, params).result


@settings(deadline=None, max_examples=60)
@given(prompts, params_strategy, st.integers(1, 13))
def test_every_split_of_the_prompt_gives_the_same_tokens(prompt, params, n_rows):
    assert alone(prompt, params, n_rows=n_rows).result == alone(prompt, params).result


@settings(deadline=None, max_examples=30)
@given(prompts, params_strategy, st.sampled_from([1, 2, 8, 32]))
def test_the_page_size_changes_no_token(prompt, params, page_size):
    assert alone(prompt, params, page_size=page_size, n_pages=64).result == alone(prompt, params).result


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_adding_stepping_and_cancelling_in_any_order_keeps_every_promise(data):
    engine = make_engine(n_rows=data.draw(st.integers(1, 9)), n_tasks=3, n_pages=20)
    asked, told, cancelled = {}, {}, set()
    for action in data.draw(st.lists(st.sampled_from(["add", "step", "step", "cancel"]), max_size=25)):
        if action == "add":
            prompt, params = data.draw(prompts), data.draw(params_strategy)
            request_id = engine.add(Request(tuple(prompt), params))
            asked[request_id], told[request_id] = (prompt, params), Told()
        elif action == "step":
            for event in engine.step():
                told[event.request_id].hear(event)
        else:
            running = [i for i, t in told.items() if t.last is None]
            if running:
                request_id = data.draw(st.sampled_from(running))
                for event in engine.cancel(request_id):
                    told[event.request_id].hear(event)
                cancelled.add(request_id)
        engine.check()
    drain(engine, told)
    for request_id, (prompt, params) in asked.items():
        if request_id in cancelled:
            # What was held back for a stop string that never came is given out, hence without stops here.
            free = alone(prompt, params.replace(stop=(), stop_regex=())).token_ids
            assert told[request_id].last.finish_reason == "cancelled"
            assert free[: len(told[request_id].token_ids)] == told[request_id].token_ids
        else:
            assert told[request_id].result == alone(prompt, params).result


def test_a_request_waits_for_the_pages_promised_to_others_and_no_one_overtakes_it():
    engine = make_engine(n_pages=4, page_size=4)
    params = GREEDY.replace(max_tokens=8)  # three pages, of which four cannot hold two
    first, second = (engine.add(Request((1, 2, 3, 4), params)) for _ in range(2))
    third = engine.add(Request((5,), params.replace(max_tokens=1)))  # would fit beside the first
    heard, ended = [], []
    while not engine.is_idle:
        for event in engine.step():
            heard.append(event.request_id)
            if event.finish_reason:
                ended.append(event.request_id)
        engine.check()
    assert ended == [first, third, second]
    assert heard.index(second) < heard.index(third)
    assert heard.index(third) > max(i for i, request_id in enumerate(heard) if request_id == first)


def test_what_can_never_fit_the_cache_is_refused_with_both_numbers():
    engine = make_engine(n_pages=3, page_size=4)
    with pytest.raises(CapacityError, match="may need 20 tokens and the KV cache holds 12; lower max_tokens"):
        engine.add(Request((1,) * 10, GREEDY.replace(max_tokens=10)))
    assert engine.is_idle
    assert run(engine, [((1,) * 10, GREEDY.replace(max_tokens=3))])[0].last.finish_reason == "length"


def test_a_prompt_that_fills_the_context_is_refused_with_both_numbers():
    engine = make_engine()
    with pytest.raises(ContextOverflow, match="prompt has 64 tokens and the context 64") as caught:
        engine.add(Request((1,) * 64, GREEDY))
    assert caught.value.code == "context_overflow"
    assert run(engine, [((1,) * 63, GREEDY)])[0].last.usage.completion_tokens == 1


def test_writing_ends_with_the_context():
    told = alone([1] * 60, DecodingParams(max_tokens=None, ignore_eos=True, temperature=0))
    assert (len(told.token_ids), told.last.finish_reason) == (4, "length")
    told = alone([1] * 60, DecodingParams(max_tokens=500, ignore_eos=True, temperature=0))
    assert (len(told.token_ids), told.last.finish_reason) == (4, "length")


def test_a_shorter_context_can_be_asked_for_and_a_longer_one_is_refused():
    engine = Engine(ToyRunner(), LETTERS, context_length=10)
    assert len(run(engine, [([1] * 6, GREEDY)])[0].token_ids) == 4
    for length in (0, 65):
        with pytest.raises(BadRequest, match=r"context_length must be in \[1, 64\]"):
            Engine(ToyRunner(), LETTERS, context_length=length)


@pytest.mark.parametrize(
    ("prompt", "params", "words"),
    [
        ((), {}, "the prompt has no tokens"),
        ((8,), {}, r"prompt holds the token id 8; this model's ids are \[0, 8\)"),
        ((1, -1), {}, "prompt holds the token id -1"),
        ((1,), {"stop_token_ids": [900]}, "stop_token_ids holds the token id 900"),
    ],
)
def test_requests_without_a_meaning_are_refused(prompt, params, words):
    engine = make_engine()
    with pytest.raises(BadRequest, match=words):
        engine.add(Request(prompt, DecodingParams(**params)))
    assert engine.is_idle


def test_padding_of_the_output_layer_is_never_chosen():
    engine = Engine(ToyRunner(vocab_size=40), LETTERS)
    params = DecodingParams(temperature=100, max_tokens=60, ignore_eos=True, seed=3)
    assert max(run(engine, [([1], params)])[0].token_ids) < 8


def test_a_stop_string_and_the_last_token_at_once_count_as_a_stop():
    free = alone([2, 1], GREEDY)
    stop = free.text[-1]
    n_tokens = free.text.index(stop)  # letters of this run are one token each
    assert [len(LETTERS.token_bytes(i)) for i in free.token_ids[: n_tokens + 1]] == [1] * (n_tokens + 1)
    told = alone([2, 1], GREEDY.replace(stop=stop, max_tokens=n_tokens + 1))
    assert (told.last.finish_reason, told.last.stop) == ("stop", stop)


def test_usage_counts_what_is_reported_and_times_what_was_run():
    told = alone([1, 2, 3], GREEDY)
    usage = told.last.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.decoded_tokens) == (3, 6, 5)
    assert usage.ttft_ms >= 1e3 * usage.prefill_s > 0
    assert usage.decode_s > 0
    assert usage.prefill_tokens_per_s == pytest.approx(3 / usage.prefill_s)
    assert usage.decode_tokens_per_s == pytest.approx(5 / usage.decode_s)


def test_cancelling_before_the_first_step_gives_an_empty_answer():
    engine = make_engine()
    request_id = engine.add(Request((1,), GREEDY))
    (event,) = engine.cancel(request_id)
    assert (event.finish_reason, event.text, event.usage.completion_tokens) == ("cancelled", "", 0)
    assert (event.usage.prefill_tokens_per_s, event.usage.decode_tokens_per_s) == (0, 0)
    assert engine.cancel(request_id) == []
    assert engine.is_idle


class FailsOnce:
    """Stands before a function and fails in its place the first time."""

    def __init__(self, function):
        self.function = function
        self.has_failed = False

    def __call__(self, *arguments, **named):
        if self.has_failed:
            return self.function(*arguments, **named)
        self.has_failed = True
        raise ZeroDivisionError


class SampleThatFailsOnce(Sample):
    n_calls = 0

    def advance(self, state, rows, processed):
        SampleThatFailsOnce.n_calls += 1
        if SampleThatFailsOnce.n_calls == 2:
            raise ZeroDivisionError
        return super().advance(state, rows, processed)


@pytest.mark.parametrize("where", ["forward", "process", "choose", "advance"])
def test_a_step_that_fails_leaves_the_requests_as_they_were(where, monkeypatch):
    engine = make_engine()
    prompts = ([1, 2], [3, 4, 5])
    second = {"process": Sample(), "advance": SampleThatFailsOnce()}.get(where)  # else steps are steady ones
    searches = (None, second)
    ids = [engine.add(Request(tuple(p), GREEDY, search=s)) for p, s in zip(prompts, searches, strict=True)]
    told = {request_id: Told() for request_id in ids}
    for event in engine.step():
        told[event.request_id].hear(event)
    if where == "forward":
        engine.runner.forward = FailsOnce(engine.runner.forward)
    elif where == "process":
        monkeypatch.setattr(pipeline, where, FailsOnce(pipeline.process))
    elif where == "choose":
        fails_once = FailsOnce(StandingRows.choose)
        monkeypatch.setattr(StandingRows, where, lambda *arguments: fails_once(*arguments))
    # or that of the second request fails, when the first has decided already
    with pytest.raises(ZeroDivisionError):
        engine.step()
    engine.check()
    drain(engine, told)
    for request_id, prompt in zip(ids, prompts, strict=True):
        assert told[request_id].result == alone(prompt, GREEDY).result


@pytest.mark.parametrize("beside", [(), (Request((1, 2), GREEDY, search=Sample()),)])
def test_an_answer_that_fails_leaves_its_siblings_alone(beside):
    """Alone, where the step is a steady one, and beside a request that keeps it from being one."""
    params = DecodingParams(seed=3, max_tokens=9, allowed_token_ids=[1, 2, 3], no_repeat_ngram_size=2)
    engine = make_engine(n_pages=64)
    request_id = engine.add(Request((4,), params, n=6))
    for request in beside:
        engine.add(request)
    told = {}
    while not engine.is_idle:
        for event in engine.step():
            if event.request_id == request_id:
                told.setdefault(event.branch, Told()).hear(event)
        engine.check()
    reasons = {branch: one.last.finish_reason for branch, one in told.items()}
    assert sorted(reasons) == list(range(6))
    assert set(reasons.values()) == {"error", "length"}
    for one in told.values():
        assert (one.last.error is None) == (len(one.token_ids) == 9)


def test_logits_that_are_no_numbers_end_their_own_request_with_an_error():
    class Broken(ToyRunner):
        def logits_of(self, token_ids):
            logits = super().logits_of(token_ids)
            return logits * np.float32(np.nan) if token_ids[0] == 7 and len(token_ids) > 3 else logits

    engine = Engine(Broken(), LETTERS)
    bad, good = run(engine, [([7, 1], GREEDY), ([1, 2], GREEDY)])
    assert bad.last.finish_reason == "error"
    assert bad.last.error.code == "no_candidate"
    assert len(bad.token_ids) == 2
    assert good.result == alone([1, 2], GREEDY).result


def test_an_idle_step_does_nothing():
    engine = make_engine()
    assert engine.step() == []
    assert engine.runner.n_forwards == 0


def test_closing_drops_what_is_in_flight_and_closes_the_runner_once():
    engine = make_engine()
    engine.add(Request((1,), GREEDY))
    engine.step()
    engine.close()
    engine.close()
    assert engine.runner.is_closed
    assert engine.is_idle
    for call in (engine.step, lambda: engine.add(Request((1,), GREEDY))):
        with pytest.raises(BadRequest, match="the engine is closed"):
            call()


def test_the_check_sees_a_page_that_was_lost():
    engine = make_engine()
    engine.pool.take(1)
    with pytest.raises(AssertionError):
        engine.check()


@pytest.mark.parametrize("limits", [(0, 0), (4, 5), (4, 0)])
def test_limits_that_leave_a_request_without_a_row_are_refused(limits):
    with pytest.raises(BadRequest, match="n_tasks must be a whole number in"):
        Limits(*limits)
