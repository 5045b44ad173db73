"""Every search with everything that it may meet: masks, penalties, stops, reports, preemption, an early end.

The engine's answers are those of the same search written out over whole texts (`search_twins`): their text,
tokens, reasons, scores and log-probabilities. For each pair it is also seen that the condition changes
something, so that no pair agrees because nothing happened.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from constrained_twin import written_out
from search_twins import Found, World
from toy_engine import LETTERS, ToyAmateur

from unspool.best import run_best
from unspool.engine.engine import Engine
from unspool.errors import BadRequest, MaskConflict, NoCandidate
from unspool.logits import masks, orders, pipeline
from unspool.params import DecodingParams
from unspool.runners.toy import ToyRunner
from unspool.search.beam import Beam
from unspool.search.beam_sample import BeamSample
from unspool.search.best_of import BestOf
from unspool.search.constrained_beam import ConstrainedBeam
from unspool.search.diverse_beam import DiverseBeam
from unspool.search.sample import Sample
from unspool.search.stochastic_beam import StochasticBeam
from unspool.search.verifiers.logprob import MeanLogprob
from unspool.types import Request

PROMPTS = [(1, 2, 3), (4, 2, 2, 1, 7, 3, 5, 6, 1), (6,)]
N_MAX = 9
SEARCHES = {
    "sample": None,
    "beam": Beam(width=3, n_best=3),
    "exact beam": Beam(width=4, n_best=2, early_stopping="exact", length_norm="gnmt", alpha=0.6),
    "diverse beam": DiverseBeam(width=4, groups=2, strength=1.5, n_best=3),
    "beam sample": BeamSample(width=3, n_best=2),
    "stochastic beam": StochasticBeam(3),
    "constrained beam": ConstrainedBeam(
        phrases=[[[5, 5], [5, 3], [5, 6]], [[7], [4], [1]]], width=5, n_best=3
    ),
    "best of": BestOf(Sample(), n=3, verifier=MeanLogprob(final=True), early_stop=False),
}


@dataclass(frozen=True)
class Condition:
    """What a search meets: parameters, or what happens while it runs."""

    params: dict = field(default_factory=dict)
    has_grammar: bool = False
    preempts: bool = False
    finds_prefix: bool = False
    cut: str | None = None  # ended from outside, for this reason,
    n_steps: int = 10**9  # after so many steps


CONDITIONS = {
    "grammar": Condition(has_grammar=True),
    "grammar and penalties": Condition({"repetition_penalty": 3.0}, has_grammar=True),
    "banned ids": Condition({"banned_token_ids": (3, 4)}),
    "bad words": Condition({"bad_words": ("a", "b\n")}),
    "allowed ids": Condition({"allowed_token_ids": (0, 1, 3, 5)}),
    "repetition penalty": Condition({"repetition_penalty": 2.5}),
    "other penalties": Condition({"frequency_penalty": 0.9, "presence_penalty": 0.5, "dry_multiplier": 2.0}),
    "no repeats": Condition({"no_repeat_ngram_size": 2}),
    "min tokens": Condition({"min_tokens": 7}),
    "min tokens and a stop": Condition({"min_tokens": 4, "stop": ("a", "\n")}),
    "stop strings": Condition({"stop": ("ab ", "b", "世")}),
    "stop kept": Condition({"stop": (" a", "aab"), "include_stop": True}),
    "stop ids": Condition({"stop_token_ids": (7,)}),
    "no end": Condition({"ignore_eos": True}),
    "logprobs": Condition({"logprobs": 3}),
    "seed": Condition({"seed": 99}),
    "preemption": Condition(preempts=True),
    "prefix hit": Condition(finds_prefix=True),
    "logit bias": Condition({"logit_bias": {1: 2.5, 4: -3.0, 6: False}}),
    "trace": Condition({"trace": True}),
    "guidance": Condition({"guidance_scale": 2.0, "negative_prompt": (5, 2, 2, 1)}),
    "guidance away from nothing": Condition({"guidance_scale": 1.5}),
    "contrast": Condition({"contrast_beta": 0.5}),
    "guidance, contrast, masks and preemption": Condition(
        {
            "guidance_scale": 0.5,
            "contrast_beta": 1.0,
            "contrast_alpha": 0.4,
            "min_tokens": 5,
            "banned_token_ids": (2,),
            "stop": ("ab",),
            "repetition_penalty": 1.3,
        },
        preempts=True,
        finds_prefix=True,
    ),
    "max tokens": Condition({"max_tokens": 3}),
    "cancel": Condition(cut="cancelled", n_steps=4),
    "deadline": Condition({"deadline_s": 5.0}, cut="deadline", n_steps=3),
    "everything": Condition(
        {
            "repetition_penalty": 1.4,
            "bad_words": ("ba",),
            "stop": ("b",),
            "min_tokens": 2,
            "logit_bias": {2: 1.0},
            "trace": True,
            "seed": 4,
        },
        has_grammar=True,
        preempts=True,
        finds_prefix=True,
    ),
}
OF_DRAWING = {  # what only a draw gives a meaning to
    "mirostat": Condition({"mirostat": 2, "mirostat_tau": 1.0, "mirostat_eta": 0.8}),
    "mirostat 1 and preemption": Condition(
        {"mirostat": 1, "mirostat_tau": 1.5, "mirostat_eta": 0.9}, preempts=True
    ),
    "adaptive": Condition({"adaptive_target": 0.4, "adaptive_decay": 0.3}),
    "adaptive and guidance": Condition(
        {"adaptive_target": 0.3, "adaptive_decay": 0.5, "guidance_scale": 1.5, "trace": True}
    ),
}
CHANGES_NO_TOKEN = {"logprobs", "preemption", "prefix hit", "trace"}  # where something else shows that it was


class StubGrammar:
    """A mask that depends on all of the answer so far: what its ids add up to says what may follow."""

    name = "grammar"

    def is_active(self, params):
        return True

    def apply(self, logits, rows):
        masked = logits.copy()
        for z, row in zip(masked, rows, strict=True):
            total = sum(row.token_ids[row.n_prompt :])
            z[[t for t in range(z.size) if not self.allows(total, t)]] = -np.inf
        return masked

    @staticmethod
    def allows(total: int, token_id: int) -> bool:
        return total % 3 == 2 if token_id == 0 else (total + token_id) % 3 != 1


@pytest.fixture
def grammar(monkeypatch):
    """The stub stands before the other masks, where a grammar's belongs; the fused pass does not know it."""
    both = (StubGrammar(), *masks.MASKS)
    for module in (masks, orders, pipeline):
        monkeypatch.setattr(module, "MASKS", both)
    monkeypatch.setattr(masks, "_PARAMETERS", masks._PARAMETERS | {"grammar": "grammar"})
    monkeypatch.setattr(pipeline, "IS_FUSED", False)
    orders.stages_for.cache_clear()
    yield
    orders.stages_for.cache_clear()


class Running:
    """A request on an engine, under a condition; an iterator over its events."""

    def __init__(self, condition: Condition, prompt, params, search, n) -> None:
        self.now_s = 0.0
        self.condition = condition
        runner = ToyRunner(n_pages=128, page_size=2)
        amateur = ToyAmateur(n_pages=128, page_size=2)
        self.engine = Engine(runner, LETTERS, clock=lambda: self.now_s, amateur=amateur)
        if condition.finds_prefix:
            self.engine.add(Request(tuple(prompt), DecodingParams(temperature=0, max_tokens=1)))
            while not self.engine.is_idle:
                self.engine.step()
        self.request_id = self.engine.add(Request(tuple(prompt), params, n=n, search=search))
        self.n_preempted = 0

    def __iter__(self):
        n_steps = 0
        while not self.engine.is_idle:
            events = self.engine.step()
            self.engine.check()
            n_steps += 1
            if n_steps == self.condition.n_steps and not self.engine.is_idle:
                if self.condition.cut == "cancelled":
                    yield from events
                    events = self.engine.cancel(self.request_id)
                self.now_s = 100.0
            if self.condition.preempts and n_steps % 3 == 2 and not self.engine.is_idle:
                self.preempt()
            yield from events
            for event in events:
                if event.error is not None:
                    raise event.error

    def preempt(self) -> None:
        """Put it back, and let half of what it left in the prefix tree go."""
        (task,) = self.engine._scheduler._running
        if not self.engine._scheduler._is_safe(task):
            self.engine._scheduler._preempt(task)
            self.engine.storage.tree.evict(3)
            self.n_preempted += 1

    def close(self) -> None:
        self.engine.cancel(self.request_id)


def asked(search, condition: Condition) -> DecodingParams:
    """Plain parameters that the search has a meaning for, and the condition's over them."""
    draws = search is None or getattr(search, "draws", True)
    plain = {"temperature": 0.9, "seed": 11} if draws else {}
    met = {name: value for name, value in condition.params.items() if draws or name != "seed"}
    return DecodingParams(**{"max_tokens": N_MAX, "logprobs": 0, **plain, **met})


def n_of(search) -> int:
    return 3 if search is None or isinstance(search, BestOf) else 1


def heard(running: Running) -> dict[int, list]:
    events_of: dict[int, list] = {}
    for event in running:
        events_of.setdefault(event.branch, []).append(event)
    return dict(sorted(events_of.items()))


def told(events) -> Found:
    last = events[-1]
    assert [e.finish_reason for e in events[:-1]] == [None] * (len(events) - 1)
    return Found(
        "".join(event.text for event in events),
        tuple(i for event in events for i in event.token_ids),
        last.finish_reason,
        last.stop,
        last.score,
        tuple(entry.token.logprob_final for event in events for entry in event.logprobs),
    )


def near(found: Found) -> Found:
    score = None if found.score is None else pytest.approx(found.score, abs=1e-9)
    return replace(found, score=score, logprobs=pytest.approx(found.logprobs, abs=1e-9))


def found_by_engine(name, condition, prompt) -> list[Found]:
    search = SEARCHES[name]
    params = asked(search, condition)
    if isinstance(search, BestOf):
        running = Running(condition, prompt, params, None, search.n)
        report = run_best(running, "", search, params)
        answers = [each.completion for each in report.answers]
        return [
            Found(a.text, a.token_ids, a.finish_reason, a.stop, each.verdict.score, _finals(a))
            for each, a in zip(report.answers, answers, strict=True)
        ]
    return [
        told(events) for events in heard(Running(condition, prompt, params, search, n_of(search))).values()
    ]


def found_by_twin(name, condition, prompt) -> list[Found]:
    search = SEARCHES[name]
    params = asked(search, condition)
    world = World(prompt, params, params.max_tokens, condition.n_steps, condition.cut or "")
    if not isinstance(search, BestOf):
        return written_out(world, search, n_of(search))
    answers = written_out(world, None, search.n)
    mean = {a: sum(a.logprobs) / len(a.logprobs) if a.logprobs else -np.inf for a in answers}
    return [replace(a, score=mean[a]) for a in sorted(answers, key=lambda a: -mean[a])]


def _finals(completion) -> tuple[float, ...]:
    return tuple(entry.token.logprob_final for entry in completion.logprobs)


def draws(search) -> bool:
    return SEARCHES[search] is None or getattr(SEARCHES[search], "draws", True)


@pytest.mark.parametrize(
    ("search", "condition"),
    [(s, c) for s in SEARCHES for c in (*CONDITIONS, *(OF_DRAWING if draws(s) else ()))],
)
def test_a_search_finds_what_it_finds_written_out(search, condition, request):
    met = (CONDITIONS | OF_DRAWING)[condition]
    if met.has_grammar:
        request.getfixturevalue("grammar")
    is_changed = False
    for prompt in PROMPTS:
        try:
            found = found_by_engine(search, met, prompt)
        except NoCandidate:  # what is plausible to both models leaves no room for the phrases
            with pytest.raises(NoCandidate):
                found_by_twin(search, met, prompt)
            is_changed = True
            continue
        assert found == [near(each) for each in found_by_twin(search, met, prompt)]
        if condition not in CHANGES_NO_TOKEN and not is_changed:
            is_changed = found != found_by_engine(search, Condition(), prompt)
    expects_change = (
        condition not in CHANGES_NO_TOKEN and (condition != "seed" or draws(search)) and not met.has_grammar
    )
    assert is_changed or not expects_change, "the condition has met nothing"


N_MIXES = int(os.environ.get("UNSPOOL_SEARCH_MIXES", "4"))


@pytest.mark.parametrize("search", SEARCHES)
def test_conditions_that_meet_each_other_too_change_nothing_else(search, grammar):
    """Random mixes of the conditions and random prompts; the grammar is there in half of them."""
    rng = np.random.default_rng(list(search.encode()))
    names = [name for name in CONDITIONS if name not in ("max tokens", "everything")]
    for _ in range(N_MIXES):
        mixed = [CONDITIONS[name] for name in rng.choice(names, 4, replace=False)]
        params = {name: value for each in mixed for name, value in each.params.items()}
        if not any(each.has_grammar for each in mixed):
            params["allowed_token_ids"] = (0, 2, 3, 4, 5, 6, 7)
        is_cut = any(each.cut is not None for each in mixed)
        if is_cut:  # or steps would be no tokens: prompts that are read together take one more
            params = {name: value for name, value in params.items() if not name.startswith(("guid", "contr"))}
        met = Condition(
            params,
            preempts=not is_cut and any(each.preempts for each in mixed),  # or steps would be no tokens
            finds_prefix=any(each.finds_prefix for each in mixed),
            cut=next((each.cut for each in mixed if each.cut is not None), None),
            n_steps=next((each.n_steps for each in mixed if each.cut is not None), 10**9),
        )
        if met.cut == "cancelled":
            met.params.pop("deadline_s", None)
        prompt = tuple(rng.integers(1, 8, rng.integers(1, 9)).tolist())
        try:
            found = found_by_engine(search, met, prompt)
        except MaskConflict as error:  # the masks leave nothing, which the twin says as well
            with pytest.raises(MaskConflict, match=re.escape(str(error))):
                found_by_twin(search, met, prompt)
            continue
        except NoCandidate:  # or no text that has all phrases
            with pytest.raises(NoCandidate):
                found_by_twin(search, met, prompt)
            continue
        except BadRequest as error:  # a mix that rules out a phrase is refused before it begins
            if error.code != "bad_phrases":
                raise
            continue
        assert found == [near(each) for each in found_by_twin(search, met, prompt)], (met, prompt)


@pytest.mark.parametrize("search", SEARCHES)
def test_no_answer_breaks_a_grammar(search, grammar):
    n_ended = 0
    for prompt in PROMPTS:
        for found in found_by_engine(search, CONDITIONS["grammar"], prompt):
            ids = found.token_ids + ((0,) if found.stop == 0 else ())
            n_ended += found.stop == 0
            assert all(StubGrammar.allows(sum(ids[:i]), t) for i, t in enumerate(ids))
    assert n_ended, "some text is complete"


@pytest.mark.parametrize("search", [name for name in SEARCHES if name != "best of"])
def test_preemption_and_prefixes_happen_and_are_told(search):
    one = SEARCHES[search]
    for name in ("preemption", "prefix hit"):
        met, n_met = CONDITIONS[name], 0
        for prompt in PROMPTS:
            running = Running(met, prompt, asked(one, met), one, n_of(one))
            usage = heard(running)[0][-1].usage
            assert usage.n_preempted == running.n_preempted
            n_met += usage.n_preempted if met.preempts else usage.cached_tokens
        assert n_met, f"there was no {name}"


@pytest.mark.parametrize("search", [name for name in SEARCHES if name != "best of"])
def test_log_probabilities_and_traces_are_of_the_tokens_that_are_told(search):
    one = SEARCHES[search]
    met = Condition({"logprobs": 2, "trace": True, "stop": ("b ", "\n"), "repetition_penalty": 1.5})
    for prompt in PROMPTS:
        for events in heard(Running(met, prompt, asked(one, met), one, n_of(one))).values():
            ids = [i for event in events for i in event.token_ids]
            entries = [entry for event in events for entry in event.logprobs]
            traces = [trace for event in events for trace in event.trace]
            assert [entry.token.token_id for entry in entries] == ids
            assert [trace.chosen.token_id for trace in traces] == ids
            assert [trace.position for trace in traces] == [len(prompt) + i for i in range(len(ids))]
            for i, (entry, trace) in enumerate(zip(entries, traces, strict=True)):
                z = ToyRunner().logits_of([*prompt, *ids[:i]]).astype(np.float64)
                raw = z - z.max() - np.log(np.exp(z - z.max()).sum())
                assert entry.token.logprob == pytest.approx(raw[ids[i]])
                assert [top.token_id for top in entry.top] == np.argsort(-raw, kind="stable")[:2].tolist()
                assert trace.chosen.prob_final == pytest.approx(np.exp(entry.token.logprob_final))
