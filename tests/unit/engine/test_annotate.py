"""Log-probabilities and traces through the engine: exact, cut with the text, and nobody else's affair."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_engine import LETTERS, drain, make_engine

from unspool.engine.limits import Limits
from unspool.errors import BadRequest
from unspool.logits import tracing
from unspool.params import DecodingParams
from unspool.runners.toy import ToyRunner
from unspool.search.base import Advance
from unspool.types import Chosen, Completion, Extend, Fork, Request

PLAIN = DecodingParams(max_tokens=8, ignore_eos=True, seed=5, top_p=0.9, temperature=0.8)
ASKING = PLAIN.replace(logprobs=3, prompt_logprobs=2, trace=True)


class Heard:
    """The events of one request, and the completion that they add up to."""

    def __init__(self, params):
        self.params, self.events = params, []

    def hear(self, event):
        self.events.append(event)

    @property
    def completion(self):
        return Completion.of(self.events, self.params)


def complete(prompts_and_params, **settings):
    engine = make_engine(**{"n_pages": 64, **settings})
    told = {
        engine.add(Request(tuple(prompt), params)): Heard(params) for prompt, params in prompts_and_params
    }
    drain(engine, told)
    return list(told.values())


def log_softmax(logits):
    z = logits.astype("f8")
    return z - (z.max() + np.log(np.exp(z - z.max()).sum()))


def test_logprobs_are_the_log_softmax_of_the_model_s_own_logits():
    [heard] = complete([((1, 2, 3), ASKING)])
    done, runner, sequence = heard.completion, ToyRunner(), [1, 2, 3]
    assert len(done.logprobs) == len(done.token_ids) == 8
    for token_id, found in zip(done.token_ids, done.logprobs, strict=True):
        expected = log_softmax(runner.logits_of(sequence))
        assert found.token.token_id == token_id
        assert found.token.logprob == pytest.approx(expected[token_id], abs=1e-13)
        assert found.rank == 1 + np.count_nonzero(expected > expected[token_id])
        assert [e.token_id for e in found.top] == np.argsort(-expected, kind="stable")[:3].tolist()
        assert [e.logprob for e in found.top] == pytest.approx(np.sort(expected)[::-1][:3], abs=1e-13)
        assert found.token.token_bytes == LETTERS.token_bytes(token_id)
        assert found.token.text == LETTERS.token_text(token_id)
        sequence.append(token_id)


def test_final_values_are_those_of_the_survivors():
    [heard] = complete([((1, 2, 3), ASKING.replace(logprobs=8))])
    for found, trace in zip(heard.completion.logprobs, heard.completion.trace, strict=True):
        assert [e.token_id for e in found.top_final] == sorted(
            trace.survivor_ids(), key=[e.token_id for e in found.top].index
        )
        assert sum(math.exp(e.logprob_final) for e in found.top_final) == pytest.approx(1, abs=1e-12)
        assert trace.chosen.prob_final == pytest.approx(math.exp(found.token.logprob_final), abs=1e-12)
        assert trace.chosen.prob == pytest.approx(math.exp(found.token.logprob), abs=1e-12)


def test_at_temperature_0_nothing_is_cut_and_both_values_are_the_model_s():
    [heard] = complete([((1, 2), PLAIN.replace(temperature=0, logprobs=8))])
    for found in heard.completion.logprobs:
        assert found.rank == 1
        assert found.token.logprob == found.token.logprob_final
        assert found.top == found.top_final


def test_what_is_reported_does_not_change_what_is_written():
    for params in (PLAIN, PLAIN.replace(temperature=0), PLAIN.replace(stop="ab")):
        asked = params.replace(logprobs=5, prompt_logprobs=0, trace=True)
        [plain], [told] = complete([((1, 2), params)]), complete([((1, 2), asked)])
        assert plain.completion.token_ids == told.completion.token_ids
        assert plain.completion.text == told.completion.text
        assert not plain.completion.logprobs + plain.completion.trace + plain.completion.prompt_logprobs


def test_a_trace_costs_nothing_when_none_is_asked_for(monkeypatch):
    monkeypatch.setattr(tracing, "walk", lambda *_: pytest.fail("the stages were walked"))
    [heard] = complete([((1, 2), PLAIN.replace(logprobs=1))])
    assert len(heard.completion.logprobs) == 8


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(1, 7), min_size=1, max_size=9),
            st.sampled_from([PLAIN, ASKING, ASKING.replace(stop=("ab", "b ")), PLAIN.replace(logprobs=0)]),
            st.integers(0, 9),
        ),
        min_size=2,
        max_size=5,
    ),
    st.integers(2, 7),
)
def test_every_number_is_the_same_bit_for_bit_alone_or_in_a_batch(asked, n_rows):
    asked = [(prompt, params.replace(seed=seed)) for prompt, params, seed in asked]
    together = complete(asked, n_rows=n_rows)
    for (prompt, params), heard in zip(asked, together, strict=True):
        [alone] = complete([(prompt, params)])
        for name in ("token_ids", "logprobs", "prompt_logprobs", "trace"):
            assert getattr(heard.completion, name) == getattr(alone.completion, name)


def test_a_stop_string_cuts_logprobs_and_traces_with_the_ids():
    params = ASKING.replace(temperature=3, top_p=1, max_tokens=40)
    seeds = [params.replace(seed=seed, stop=("ab", "b a")) for seed in range(30)]
    n_cut = 0
    for heard in complete([((1,), each) for each in seeds], n_pages=512):
        done = heard.completion
        n_cut += done.finish_reason == "stop"
        for event in heard.events:
            assert len(event.token_ids) == len(event.logprobs) == len(event.trace)
        assert done.token_ids == tuple(entry.token.token_id for entry in done.logprobs)
        assert done.token_ids == tuple(entry.chosen.token_id for entry in done.trace)
        assert done.usage.completion_tokens == len(done.logprobs)
    assert n_cut > 20


def test_the_id_that_ends_the_text_is_reported_when_it_is_kept():
    params = DecodingParams(temperature=2, seed=3, max_tokens=60, logprobs=0, trace=True)
    [cut], [kept] = complete([((1,), params)]), complete([((1,), params.replace(include_stop=True))])
    assert (cut.completion.stop, kept.completion.stop) == (0, 0)
    assert kept.completion.logprobs[:-1] == cut.completion.logprobs
    assert kept.completion.logprobs[-1].token.text == "</s>"
    assert kept.completion.trace[-1].chosen.text == "</s>"


def test_prompt_logprobs_are_those_of_every_token_after_the_first():
    prompt = (3, 1, 2, 7, 7, 4, 1)
    [heard] = complete([(prompt, ASKING)])
    found, runner = heard.completion.prompt_logprobs, ToyRunner()
    assert [entry.token.token_id for entry in found] == list(prompt[1:])
    for i, entry in enumerate(found, start=1):
        expected = log_softmax(runner.logits_of(list(prompt[:i])))
        assert entry.token.logprob == pytest.approx(expected[prompt[i]], abs=1e-13)
        assert [e.token_id for e in entry.top] == np.argsort(-expected, kind="stable")[:2].tolist()
        assert entry.token.logprob_final is None
    told = [event.prompt_logprobs for event in heard.events if event.prompt_logprobs]
    assert told == [heard.events[0].prompt_logprobs], "once, with the first event"


@pytest.mark.parametrize(
    "settings", [{"n_rows": 2}, {"n_rows": 3}, {"logits_bytes": 64}, {"logits_bytes": 1}]
)
def test_prompt_logprobs_do_not_depend_on_how_the_prompt_is_cut(settings):
    prompts = [((3, 1, 2, 7, 7, 4, 1, 5), ASKING), ((2, 2, 6), ASKING), ((4,), ASKING)]
    for cut, whole in zip(complete(prompts, **settings), complete(prompts), strict=True):
        assert cut.completion.prompt_logprobs == whole.completion.prompt_logprobs
        assert cut.completion.token_ids == whole.completion.token_ids
        assert cut.completion.logprobs == whole.completion.logprobs


def test_no_step_of_a_scored_prompt_has_more_logits_than_allowed():
    engine = make_engine(n_pages=64, logits_bytes=4 * 8 * 3)  # 3 rows of the toy's 8 logits
    n_logits = []
    forward = engine.runner.forward
    engine.runner.forward = lambda plan: (n_logits.append(len(plan.logits_rows)), forward(plan))[1]
    scored = PLAIN.replace(prompt_logprobs=0, max_tokens=1)
    for prompt in ((1,) * 7, (2,) * 4):
        engine.add(Request(prompt, scored))
    engine.add(Request((3,) * 9, scored.replace(prompt_logprobs=None)))
    while not engine.is_idle:
        engine.step()
    assert n_logits == [4, 3, 3, 2], (
        "three rows of prompts a step; the third prompt asks for its last row only"
    )


def test_a_prompt_of_one_token_has_nothing_before_it():
    [heard] = complete([((4,), ASKING)])
    assert heard.completion.prompt_logprobs == ()
    assert len(heard.completion.logprobs) == 8


def test_a_request_cancelled_while_its_prompt_is_read_tells_no_part_of_it():
    engine = make_engine(n_rows=2, n_tasks=2)
    request_id = engine.add(Request((1,) * 9, ASKING))
    engine.step()
    [event] = engine.cancel(request_id)
    assert (event.finish_reason, event.prompt_logprobs, event.logprobs) == ("cancelled", (), ())


@dataclasses.dataclass
class ForksOnce:
    """Two branches from the second token on; each writes a token of its own, then 1."""

    max_branches = 2
    n_first = 1
    forks_later = True
    draws = True
    wants_candidates = False
    n_candidates = None
    is_ranked = False
    n_steps: int = 0

    def start(self):
        return None

    def advance(self, state, rows, processed):
        self.n_steps += 1
        if self.n_steps == 1:
            forked = (Fork(0, 1), Extend(0, (Chosen(2),)), Extend(1, (Chosen(3), Chosen(4))))
            return Advance(None, forked)
        return Advance(None, tuple(Extend(row.branch, (Chosen(1),)) for row in rows))


def test_a_fork_is_told_about_with_the_row_it_came_from():
    engine = make_engine(n_pages=64)
    request_id = engine.add(Request((1, 2), PLAIN.replace(logprobs=0, max_tokens=3)))
    task = engine._tasks[request_id]
    task.search, task.n_pages_max = ForksOnce(), 2 * task.n_pages_max
    events = []
    while not engine.is_idle:
        events += engine.step()
    by_branch = {b: [e for event in events if event.branch == b for e in event.logprobs] for b in (0, 1)}
    expected = log_softmax(ToyRunner().logits_of([1, 2]))
    assert [entry.token.token_id for entry in by_branch[0]] == [2, 1, 1]
    assert by_branch[0][0].token.logprob == pytest.approx(expected[2])
    assert by_branch[1][0].token.logprob == pytest.approx(expected[3])
    assert [entry.token.token_id for entry in by_branch[1]] == [3, 1], "4 was of no row of the step"


def test_logits_bytes_is_checked():
    with pytest.raises(BadRequest, match="logits_bytes must be a whole number, at least 1, got 0"):
        Limits(logits_bytes=0)


def test_no_list_of_probabilities_exceeds_1_and_what_top_p_cut_has_no_final_mass():
    """Nor are probabilities labelled logprob, whatever the temperature."""
    for temperature in (0, 0.5, 1, 2):
        [heard] = complete([((1, 2), PLAIN.replace(temperature=temperature, top_p=0.6, logprobs=8))])
        for found in heard.completion.logprobs:
            raw = [math.exp(entry.logprob) for entry in found.top]
            assert sum(raw) == pytest.approx(1, abs=1e-12)
            assert all(entry.logprob <= 0 and entry.logprob_final <= 0 for entry in found.top)
            assert sum(math.exp(entry.logprob_final) for entry in found.top) == pytest.approx(1, abs=1e-12)
            cut = {entry.token_id for entry in found.top} - {entry.token_id for entry in found.top_final}
            assert bool(cut) == (temperature > 0), "at temperature 0 top_p is not applied"
            assert all(entry.logprob_final == -math.inf for entry in found.top if entry.token_id in cut)
