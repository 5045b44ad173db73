"""Steps that keep what stays the same do what any step does."""

from __future__ import annotations

import gc
import weakref
import zlib

import numpy as np
import pytest
from machine_requests import Sizes, random_request
from toy_engine import LETTERS, make_engine

from unspool.engine import engine as engine_module
from unspool.engine.engine import Engine
from unspool.engine.limits import Limits
from unspool.engine.steady import Steady
from unspool.errors import CapacityError
from unspool.history.counts import TokenCounts
from unspool.params import DecodingParams
from unspool.runners.toy import ToyRunner
from unspool.types import Request

SIZES = Sizes(n_vocab=LETTERS.vocab_size, n_prompt=12, n_new=14)
KINDS = (
    {"temperature": 0},
    {"top_k": 3},
    {"repetition_penalty": 1.5},
    {"mirostat": 2},
    {"stop": ["ba"]},
    {"allowed_token_ids": [1, 2], "no_repeat_ngram_size": 2},  # nothing is left after a while
    {"repetition_penalty": 1.3, "frequency_penalty": -0.5, "penalty_window": 3},
    {"presence_penalty": 1.0, "penalty_exclude_ids": [1, 3], "penalty_window": 1, "top_p": 0.9},
    {"adaptive_target": 0.3, "min_tokens": 9},
    {"dry_multiplier": 0.8, "dry_allowed_length": 1, "repetition_penalty": 0.8},
    {"bad_words": ["ab", " a"], "logit_bias": {2: 5.0, 4: -100.0}, "min_p": 0.1},
)
PARAMS = DecodingParams(max_tokens=20, ignore_eos=True, seed=1)


class OddRunner(ToyRunner):
    """Its matrix is wider than the vocabulary, and after some texts there is no number or no candidate."""

    def logits_of(self, token_ids):
        z = super().logits_of(token_ids)
        lot = zlib.crc32(np.array(token_ids, "<i4").tobytes() + b"odd") % 150
        if lot < 4:
            z[: LETTERS.vocab_size] = (np.nan, np.inf, -np.inf, 0)[lot]
        z[LETTERS.vocab_size :] = (50, np.nan)[lot % 2]
        return z


def crowded_engine():
    runner = OddRunner(vocab_size=LETTERS.vocab_size + 3, n_pages=24, page_size=4)
    return Engine(runner, LETTERS, limits=Limits(n_rows=10, n_tasks=6), clock=lambda: 0.0)


def fits(request):
    try:
        crowded_engine().add(request)
    except CapacityError:
        return False
    return True


def simple(rng):
    """Samples without anything that keeps a step from being steady."""
    params = PARAMS.replace(**KINDS[rng.integers(len(KINDS))], ignore_eos=bool(rng.random() < 0.7))
    prompt = tuple(int(i) for i in rng.integers(1, 8, rng.integers(1, 9)))
    return Request(prompt, params, n=int(rng.choice([1, 1, 3])))


def states(engine):
    """What the next steps start from."""
    return {
        (task.request_id, branch.branch_id): (
            task.phase,
            list(branch.token_ids),
            branch.n_cached,
            branch.n_read,
            branch.table.pages.tolist(),
            list(branch.transcript.token_ids),
            None if branch.history.tally is None else branch.history.tally.counts(),
            None if branch.history.running is None else branch.history.running.value,
        )
        for task in engine._tasks.values()
        for branch in task.branches.values()
    }


def said(event):
    return event._replace(error=None), None if event.error is None else str(event.error)


@pytest.mark.parametrize("seed", range(20))
def test_events_and_branches_are_those_of_steps_that_keep_nothing(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    steady, plain = crowded_engine(), crowded_engine()
    of, n_steady = Steady.of, 0
    for _ in range(150):
        lot = rng.random()
        if lot < 0.12 and len(steady._tasks) < 8:
            request = simple(rng) if rng.random() < 0.8 else random_request(rng, SIZES, (1, 2, 3))
            if fits(request):
                assert steady.add(request) == plain.add(request)
        elif lot < 0.16 and steady._tasks:
            request_id = int(rng.choice(list(steady._tasks)))
            if rng.random() < 0.2:
                priority = int(rng.integers(-2, 3))
                for engine in (steady, plain):
                    engine.set_priority(request_id, priority)
            elif rng.random() < 0.5:
                events = [said(event) for event in steady.cancel(request_id)]
                assert events == [said(event) for event in plain.cancel(request_id)]
            else:
                for engine in (steady, plain):
                    engine.pause(request_id)
                    engine.resume(request_id)
        monkeypatch.setattr(engine_module.Steady, "of", of)
        events = [said(event) for event in steady.step()]
        n_steady += steady._steady is not None
        monkeypatch.setattr(engine_module.Steady, "of", lambda *_: None)
        assert events == [said(event) for event in plain.step()]
        assert states(steady) == states(plain)
        steady.check()
        assert steady.stats() == plain.stats()
    assert n_steady > 20


def test_requests_that_are_over_leave_no_history_alive(monkeypatch):
    """Their tallies are native, and counts of references alone free them: no cycle may hold one."""
    engine = make_engine()
    params = PARAMS.replace(repetition_penalty=1.5, frequency_penalty=0.2, max_tokens=3)
    made, seen = TokenCounts.__init__, []

    def remembered(self, *arguments):
        made(self, *arguments)
        seen.append(weakref.ref(self))

    monkeypatch.setattr(TokenCounts, "__init__", remembered)
    gc.disable()
    try:
        for seed in range(100):
            engine.add(Request((1 + seed % 7, 2, 3), params.replace(seed=seed), n=1 + seed % 3))
            while not engine.is_idle:
                engine.step()
    finally:
        gc.enable()
    assert len(seen) == 100
    assert sum(one() is not None for one in seen) <= 1  # of the last step at most


def test_a_request_that_decodes_alone_is_planned_once():
    engine = make_engine()
    engine.add(Request((1, 2, 3), PARAMS))
    plans, plan = [], engine._scheduler.plan
    engine._scheduler.plan = lambda: plans.append(1) or plan()
    while not engine.is_idle:
        engine.step()
    assert len(plans) == 2  # the prompt, and what decodes


def test_who_comes_is_let_in_by_the_next_step():
    engine = make_engine()
    engine.add(Request((1, 2, 3), PARAMS))
    for _ in range(5):
        engine.step()
    assert engine._steady is not None
    late = engine.add(Request((4, 5), PARAMS))
    assert late in {event.request_id for event in engine.step()}


def test_where_pages_run_out_the_scheduler_puts_one_back():
    engine = make_engine(n_pages=12, page_size=4)
    for ids in ((1, 2, 3), (4, 5, 6)):
        engine.add(Request(ids, PARAMS.replace(max_tokens=30)))
    n_steps = 0
    while not engine.is_idle:
        engine.step()
        engine.check()
        n_steps += 1
    assert engine.stats().n_preemptions > 0
    assert engine.stats().tokens_decoded == 60


def test_a_forward_pass_that_fails_can_be_run_again():
    def tokens(fails):
        engine = make_engine()
        engine.add(Request((1, 2, 3), PARAMS))
        told = []
        while not engine.is_idle:
            if fails and len(told) == 6:
                fails = False
                forward = engine.runner.forward
                engine.runner.forward = lambda plan: 1 // 0
                with pytest.raises(ZeroDivisionError):
                    engine.step()
                engine.runner.forward = forward
            told += [token_id for event in engine.step() for token_id in event.token_ids]
        return told

    assert tokens(fails=True) == tokens(fails=False)
