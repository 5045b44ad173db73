"""What users of engines expect of log-probabilities, from their complaints."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scripted import vocabulary_of
from toy_engine import drain

from unspool.engine.engine import Engine
from unspool.params import DecodingParams
from unspool.runners.toy import ToyRunner
from unspool.types import Completion, Request

Z = np.array([1.0, 0.0, -1.0, -2.0], dtype=np.float32)
VOCABULARY = vocabulary_of("a", "b", "c")


class Fixed(ToyRunner):
    def logits_of(self, token_ids):
        return Z


class Heard(list):
    hear = list.append


def complete(**params):
    asked = DecodingParams(**{"max_tokens": 1, "seed": 3, "ignore_eos": True, "logprobs": 4, **params})
    engine = Engine(Fixed(vocab_size=4), VOCABULARY)
    told = {engine.add(Request((1,), asked)): Heard()}
    drain(engine, told)
    return Completion.of(told[0], asked)


def softmax(z):
    weights = np.exp(z - z.max())
    return weights / weights.sum()


def test_both_kinds_of_log_probabilities_come_in_one_answer():
    (entry,) = complete(temperature=0.5, top_p=0.9).logprobs
    raw = np.log(softmax(Z.astype(float)))
    # At temperature .5 the shares are .865 .117 .016 .002; the first two reach .9.
    final = np.log(softmax(Z[:2].astype(float) / 0.5))
    assert [e.logprob for e in entry.top] == pytest.approx(raw, abs=1e-9)
    assert [e.logprob_final for e in entry.top_final] == pytest.approx(final, abs=1e-9)


def test_the_model_s_own_do_not_depend_on_temperature_or_truncation():
    tops = {
        tuple((e.token_id, e.logprob) for e in complete(**params).logprobs[0].top)
        for params in ({}, {"temperature": 0.5}, {"temperature": 0}, {"top_k": 1}, {"logit_bias": {2: 5}})
    }
    assert len(tops) == 1


def test_what_was_cut_off_has_no_mass_and_the_rest_sums_to_one():
    (entry,) = complete(top_p=0.9).logprobs
    final = {e.token_id: e.logprob_final for e in entry.top}
    assert final[3] == -math.inf
    assert sum(math.exp(value) for value in final.values()) == pytest.approx(1, abs=1e-9)


def test_at_temperature_0_the_probabilities_are_still_the_model_s():
    (entry,) = complete(temperature=0).logprobs
    assert entry.token.token_id == 0
    assert entry.token.logprob == pytest.approx(math.log(softmax(Z.astype(float))[0]), abs=1e-9)


def test_log_probabilities_are_logarithms():
    for entry in complete(max_tokens=5).logprobs:
        assert all(e.logprob <= 0 and e.logprob_final <= 0 for e in entry.top)
        assert sum(math.exp(e.logprob) for e in entry.top) == pytest.approx(1, abs=1e-9)
