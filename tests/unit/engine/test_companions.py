"""Guided and contrasted requests, against a plain loop over texts and rules."""

from __future__ import annotations

import numpy as np
import pytest
from second_opinions import combined_after, toy_row
from toy_engine import LETTERS, ToyAmateur, drain, make_engine
from toy_engine import Told as Heard

from unspool.engine.engine import Engine
from unspool.errors import BadRequest, ContextOverflow
from unspool.logits.pipeline import process_by_stages
from unspool.params import DecodingParams
from unspool.runners.toy import ToyRunner
from unspool.search.beam import Beam
from unspool.types import Request

PROMPT = (1, 2, 3, 4, 1)
GUIDED = {"guidance_scale": 2.5}
AWAY = {"guidance_scale": 1.5, "negative_prompt": [5, 5, 4, 3, 2, 1, 1]}
CONTRASTED = {"contrast_beta": 0.5}
FORMS = {
    "guided": GUIDED,
    "away from a prompt": AWAY,
    "towards it": {**AWAY, "guidance_scale": 0.25},
    "contrasted": CONTRASTED,
    "all that is plausible": {"contrast_beta": 2.0, "contrast_alpha": 0.0},
    "both": AWAY | CONTRASTED,
}
BESIDE = (
    {"temperature": 0.0},
    {"temperature": 1.2, "top_p": 0.9},
    {"temperature": 1.0, "repetition_penalty": 1.3, "min_tokens": 6, "logit_bias": {0: 4.0}},
    {"temperature": 0.0, "no_repeat_ngram_size": 2, "banned_token_ids": [3]},
)


def engine_with_amateur(**settings):
    settings = {"n_pages": 64, **settings}
    return Engine(ToyRunner(**settings), LETTERS, amateur=ToyAmateur(**settings))


def by_hand(prompt, params, branch=0):
    """Token ids and their final log-probabilities, one token after the other."""
    output, logprobs = [], []
    while len(output) < params.max_tokens:
        z = combined_after(prompt, output, params)
        row = toy_row(prompt, output, params, branch)
        (made,) = process_by_stages(z[None], [row])
        left = made.candidates
        p = left.logits - left.logits.max()
        p -= np.log(np.exp(p).sum())
        logprobs.append(p[left.token_ids == made.chosen.token_id][0])
        output.append(made.chosen.token_id)
        if made.chosen.token_id == 0:
            break
    return output, logprobs


@pytest.mark.parametrize("beside", BESIDE, ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_an_answer_is_the_plain_loops_token_for_token_and_in_its_logprobs(form, beside):
    params = DecodingParams(max_tokens=12, seed=3, logprobs=0, include_stop=True, **FORMS[form], **beside)
    engine = engine_with_amateur()
    told = [Heard() for _ in range(3)]
    events = []
    engine.add(Request(PROMPT, params, n=3))
    while not engine.is_idle:
        for event in engine.step():
            told[event.branch].hear(event)
            events.append(event)
        engine.check()
    for branch, each in enumerate(told):
        ids, logprobs = by_hand(PROMPT, params, branch)
        assert list(each.token_ids) == ids
        found = [entry.token.logprob_final for e in events if e.branch == branch for entry in e.logprobs]
        assert found == pytest.approx(logprobs, abs=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_a_beam_ranks_by_the_combined_scores(form):
    params = DecodingParams(max_tokens=4, temperature=0, ignore_eos=True, logprobs=0, **FORMS[form])
    engine = engine_with_amateur(vocab_size=8)
    told = Heard()
    request_id = engine.add(Request(PROMPT, params, search=Beam(width=3)))
    drain(engine, {request_id: told})
    live = [((), 0.0)]
    for _ in range(4):
        grown = []
        for output, total in live:
            z = combined_after(PROMPT, output, params).astype(float)
            logprobs = z - z.max() - np.log(np.exp(z - z.max()).sum())
            grown += [((*output, i), total + logprobs[i]) for i in np.flatnonzero(z > -np.inf).tolist()]
        live = sorted(grown, key=lambda each: -each[1])[:3]
    assert told.token_ids == live[0][0]
    assert told.last.score == pytest.approx(live[0][1] / 4, abs=1e-6)


@pytest.mark.parametrize("form", ["away from a prompt", "contrasted", "both"])
def test_the_trace_shows_it_before_the_stages(form):
    params = DecodingParams(max_tokens=3, seed=1, trace=True, top_k=4, ignore_eos=True, **FORMS[form])
    engine = engine_with_amateur()
    events = []
    engine.add(Request(PROMPT, params))
    while not engine.is_idle:
        events += engine.step()
    traces = [trace for event in events for trace in event.trace]
    expected = {
        "away from a prompt": ["guidance"],
        "contrasted": ["contrast"],
        "both": ["guidance", "contrast"],
    }
    assert [stage.stage for stage in traces[0].stages] == [*expected[form], "top_k"]
    own = ToyRunner().logits_of(list(PROMPT)).astype(float)
    at_first = {path.token_id: path.prob for path in traces[0].candidates}
    probs = np.exp(own - own.max()) / np.exp(own - own.max()).sum()
    assert at_first == pytest.approx({i: probs[i] for i in at_first})
    assert all(trace.matches for trace in traces)


def test_scale_1_is_plain_decoding_without_a_second_strand():
    plain, given = (
        DecodingParams(max_tokens=8, seed=2, logprobs=2, ignore_eos=True, **kind)
        for kind in ({}, {"guidance_scale": 1.0})
    )
    assert plain == given
    engine = make_engine()
    engine.add(Request(PROMPT, given))
    engine.step()
    (task,) = engine._tasks.values()
    assert task.companions == ()
    assert engine.pool.n_live == 2


def test_both_strands_run_in_one_pass_and_a_prompt_that_was_read_is_found_by_either():
    engine = make_engine(n_pages=64)
    params = DecodingParams(max_tokens=4, temperature=0, ignore_eos=True, **AWAY)
    told = Heard()
    drain(engine, {engine.add(Request(PROMPT * 3, params)): told})
    assert engine.runner.n_forwards == 1 + 4  # the prompts but their last tokens, and a step a token
    n_read = engine.stats().tokens_read
    drain(engine, {engine.add(Request(PROMPT * 3, params)): Heard()})
    assert engine.stats().tokens_read - n_read < 4
    n_found = engine.stats().tokens_found
    plain = DecodingParams(max_tokens=1, temperature=0)
    drain(engine, {engine.add(Request((5, 5, 4, 3, 2, 1, 1), plain)): Heard()})
    assert engine.stats().tokens_found - n_found == 6


def test_models_do_not_find_each_others_pages():
    engine = engine_with_amateur()
    params = DecodingParams(max_tokens=2, temperature=0, ignore_eos=True)
    drain(engine, {engine.add(Request(PROMPT * 2, params)): Heard()})
    n_read = engine.stats().tokens_read
    drain(engine, {engine.add(Request(PROMPT * 2, params.replace(**CONTRASTED))): Heard()})
    assert (
        engine.stats().tokens_read - n_read == 10 + 1
    )  # the amateur's whole prompt, and one token of its own


def test_a_private_request_leaves_nothing_of_its_companions():
    engine = engine_with_amateur()
    params = DecodingParams(max_tokens=4, seed=1, **AWAY, **CONTRASTED)
    drain(engine, {engine.add(Request(PROMPT * 3, params, use_cache=False)): Heard()})
    assert engine.storage.tree.n_pages == 0


def test_what_a_companion_has_no_room_for_is_refused():
    engine = Engine(ToyRunner(n_pages=64), LETTERS, amateur=ToyAmateur(n_pages=64, context_length=8))
    with pytest.raises(ContextOverflow, match=r"^for the amateur the prompt has 10 tokens and the context 8"):
        engine.add(Request(PROMPT * 2, DecodingParams(**CONTRASTED)))
    with pytest.raises(ContextOverflow, match=r"^the negative prompt has 64 tokens"):
        engine.add(Request(PROMPT, DecodingParams(guidance_scale=2, negative_prompt=[1] * 64)))
    with pytest.raises(BadRequest, match="negative_prompt holds the token id 8"):
        engine.add(Request(PROMPT, DecodingParams(guidance_scale=2, negative_prompt=[8])))
    with pytest.raises(BadRequest, match=r"each needs 3 rows, .* and a step has 5"):
        make_engine(n_rows=5, amateur=ToyAmateur()).add(
            Request(PROMPT, DecodingParams(**GUIDED, **CONTRASTED), n=2)
        )


def test_a_contrast_without_an_amateur_is_refused_with_the_way_to_one():
    with pytest.raises(BadRequest, match=r"needs a second model .* load one as amateur") as refused:
        make_engine().add(Request(PROMPT, DecodingParams(**CONTRASTED)))
    assert refused.value.code == "no_amateur"


@pytest.mark.parametrize("settings", [{"n_pages": 8}, {"page_size": 8}, {"vocab_size": 7}])
def test_an_amateur_of_other_pages_or_tokens_is_refused(settings):
    with pytest.raises(BadRequest, match="the amateur has") as refused:
        Engine(ToyRunner(), LETTERS, amateur=ToyAmateur(**settings))
    assert refused.value.code == "bad_amateur"


def test_a_companion_whose_logits_are_no_numbers_ends_the_request_with_an_error():
    class Broken(ToyAmateur):
        def logits_of(self, token_ids):
            return super().logits_of(token_ids) * np.float32(np.nan)

    engine = Engine(ToyRunner(n_pages=64), LETTERS, amateur=Broken(n_pages=64))
    told = Heard()
    drain(engine, {engine.add(Request(PROMPT, DecodingParams(**CONTRASTED, seed=1))): told})
    assert told.last.error.code == "no_candidate"


def test_closing_closes_both_models():
    engine = engine_with_amateur()
    engine.close()
    assert all(runner.is_closed for runner in engine.storage.runners)
