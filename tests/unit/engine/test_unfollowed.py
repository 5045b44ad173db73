"""Who waits for whole answers gets what the events of a reader who follows them add up to."""

from __future__ import annotations

import numpy as np
import pytest
from machine_requests import Sizes, random_request
from toy_engine import LETTERS

from unspool import LLM, DecodingParams
from unspool.engine.engine import Engine
from unspool.engine.limits import Limits
from unspool.errors import CapacityError
from unspool.runners.toy import ToyRunner
from unspool.types import Completion, Request

SIZES = Sizes(n_vocab=LETTERS.vocab_size, n_prompt=12, n_new=20)
LONG = DecodingParams(max_tokens=30, ignore_eos=True, temperature=0)


def crowded_engine():
    runner = ToyRunner(vocab_size=LETTERS.vocab_size, n_pages=24, page_size=4)
    return Engine(runner, LETTERS, limits=Limits(n_rows=10, n_tasks=6), clock=lambda: 0.0)


def plain_request(rng):
    """One whose steps are steady where nothing else runs."""
    prompt = tuple(int(i) for i in rng.integers(1, 8, rng.integers(1, 9)))
    return Request(prompt, LONG.replace(temperature=1.0, seed=int(rng.integers(99)), ignore_eos=False))


def hear(told, events):
    for event in events:
        told.setdefault((event.request_id, event.branch), []).append(event)


def answers(told, requests):
    """Of every branch that came to an end; one that was dropped is no answer, whatever it had told."""
    return {
        (request_id, branch): (Completion.of(events, requests[request_id].params), str(events[-1].error))
        for (request_id, branch), events in told.items()
        if events[-1].finish_reason is not None
    }


@pytest.mark.parametrize("seed", range(12))
def test_the_answers_are_those_that_events_add_up_to(seed):
    rng = np.random.default_rng(seed)
    followed, plain, requests = {}, {}, {}
    engines = (crowded_engine(), followed, True), (crowded_engine(), plain, False)
    for _ in range(150):
        lot = rng.random()
        if lot < 0.15:
            request = plain_request(rng) if lot < 0.09 else random_request(rng, SIZES, (1, 2, 3))
            try:
                ids = {engine.add(request, is_followed=told is followed) for engine, told, _ in engines}
            except CapacityError:
                continue
            (request_id,) = ids
            requests[request_id] = request
        for engine, told, _ in engines:
            if 0.15 < lot < 0.18 and requests:
                hear(told, engine.cancel(max(requests)))
            hear(told, engine.step())
            engine.check()
    assert answers(followed, requests) == answers(plain, requests)
    assert len(answers(plain, requests)) > 10
    assert sum(map(len, plain.values())) < sum(map(len, followed.values()))


@pytest.mark.parametrize("params", [LONG, LONG.replace(stop=["never"], logprobs=2), LONG.replace(top_k=4)])
def test_an_answer_that_nobody_follows_is_one_event(params):
    with LLM.from_parts(ToyRunner(vocab_size=LETTERS.vocab_size), LETTERS) as llm:
        (heard,) = llm._worker.complete([Request((1, 2, 3), params)])
        assert [event.finish_reason for event in heard] == ["length"]
        assert heard[0].text == "".join(event.text for event in llm.stream([1, 2, 3], params))


def test_log_probabilities_of_a_prompt_stay_with_the_answer_that_is_told_first():
    params = LONG.replace(prompt_logprobs=1, ignore_eos=False, temperature=1.5, seed=5)
    with LLM.from_parts(ToyRunner(vocab_size=LETTERS.vocab_size, n_pages=64), LETTERS) as llm:
        completions = llm.generate([1, 2, 3], params, n=4)
        assert min(completions, key=lambda each: len(each.token_ids)) is not completions[0]
        assert [len(each.prompt_logprobs) for each in completions] == [2, 0, 0, 0]
