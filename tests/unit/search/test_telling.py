"""What a traced search tells of its steps, against what follows from the toy's logits."""

from __future__ import annotations

import pytest
from searching import PROMPT, answers_of, found, logprobs_after, params
from toy_engine import make_engine

from unspool import search_tree
from unspool.search.beam import Beam
from unspool.search.beam_sample import BeamSample
from unspool.search.constrained_beam import ConstrainedBeam
from unspool.search.diverse_beam import DiverseBeam
from unspool.search.stochastic_beam import StochasticBeam
from unspool.search_tree import WHY
from unspool.types import Request

EOS = 0
SEARCHES = [
    Beam(width=1),
    Beam(width=3, n_best=3),
    Beam(width=4, n_best=2, early_stopping=True),
    Beam(width=4, n_best=4, early_stopping="exact", alpha=0),
    DiverseBeam(width=4, groups=2, strength=2.0, n_best=4),
    BeamSample(width=3, n_best=2),
    ConstrainedBeam(phrases=[[5, 6], [2]], width=4, n_best=2),
    StochasticBeam(3),
]
PROMPTS = [PROMPT, (4, 2), (1,), (5, 5, 1, 2)]


def seeded(search):
    return {"seed": 3} if search.draws else {}


def tree_of(search, prompt=PROMPT, **asked):
    heard = answers_of(search, prompt, params(trace=True, include_stop=True, **seeded(search), **asked))
    answers = {rank: tuple(i for event in events for i in event.token_ids) for rank, events in heard.items()}
    return heard[0][-1].search_tree, answers


@pytest.mark.parametrize("search", SEARCHES, ids=repr)
@pytest.mark.parametrize("prompt", PROMPTS)
def test_the_path_of_an_answer_is_its_tokens_and_its_log_probability(search, prompt):
    tree, answers = tree_of(search, prompt, max_tokens=8)
    assert len(tree.answers) == len(answers)
    for rank, (branch, score) in enumerate(tree.answers):
        path = tree.path(branch)
        assert tuple(c.token_id for c in path) == answers[rank]
        assert path[-1].score == score
        ids, total = tuple(prompt), 0.0
        for c in path:
            logprob = logprobs_after(ids)[c.token_id]
            total += logprob
            assert (c.logprob, c.total_logprob) == (pytest.approx(logprob), pytest.approx(total))
            ids = (*ids, c.token_id)


@pytest.mark.parametrize("search", SEARCHES, ids=repr)
@pytest.mark.parametrize("prompt", PROMPTS)
def test_each_step_goes_on_from_what_the_step_before_has_kept(search, prompt):
    tree, _ = tree_of(search, prompt, max_tokens=8)
    live, ended = {0}, set()
    for step in tree.steps:
        kept = [c.branch for c in step.considered if c.fate == "kept"]
        finished = [c.branch for c in step.considered if c.fate == "finished"]
        assert {c.parent for c in step.considered} <= live
        assert len(set(kept)) == len(kept) <= search.max_branches
        assert set(step.given_up) <= ended, "only what had ended is given up later"
        live, ended = set(kept), ended.union(finished).difference(step.given_up)
        for c in step.considered:
            assert (c.branch is None) == (c.fate == "dropped") == (c.why is not None)
            assert (c.score is None) == (c.fate != "finished")
            assert c.fate != "kept" or c.token_id != EOS
    assert not live, "a search that came to its own end leaves nothing alive"
    assert {branch for branch, _ in tree.answers} <= ended


@pytest.mark.parametrize("search", SEARCHES, ids=repr)
@pytest.mark.parametrize("prompt", PROMPTS)
def test_reasons_are_those_that_the_definition_gives(search, prompt):
    tree, _ = tree_of(search, prompt, max_tokens=8)
    width = search.max_branches // getattr(search, "groups", 1)
    for step in tree.steps:
        for group in {c.group for c in step.considered}:
            told = [c for c in step.considered if c.group == group]
            assert [c.place for c in told] == sorted({c.place for c in told})
            assert [c.rank_value for c in told] == sorted((c.rank_value for c in told), reverse=True)
            last_kept = max((c.place for c in told if c.fate == "kept"), default=None)
            for c in told:
                is_end = c.token_id == EOS or step.n_tokens == 8
                if c.why == "no room":
                    assert is_end
                    assert c.place > width
                    assert not isinstance(search, StochasticBeam)
                elif c.why == "group":
                    assert c.rank_value < c.total_logprob, "an earlier group had its token"
                elif c.why == "rank" and not is_end and last_kept is not None:
                    assert c.place > last_kept


def test_a_stop_rule_says_what_it_has_stopped():
    steps = [
        step
        for prompt in PROMPTS
        for step in tree_of(Beam(width=2, early_stopping=True), prompt, max_tokens=40)[0].steps
    ]
    stopped = [step for step in steps if any(c.why == "stop rule" for c in step.considered)]
    assert stopped, "some search stops before its hypotheses do"
    for step in stopped:
        assert not any(c.fate == "kept" for c in step.considered)


def test_the_groups_of_a_diverse_beam_push_each_other_out():
    tree, _ = tree_of(DiverseBeam(width=4, groups=2, strength=5.0))
    pushed = [c for step in tree.steps for c in step.considered if c.why == "group"]
    assert pushed
    assert {c.group for c in pushed} == {1}, "nobody came before the first group"
    first = tree.steps[0].considered
    kept = {group: {c.token_id for c in first if c.group == group and c.fate == "kept"} for group in (0, 1)}
    pushed_first = {c.token_id for c in first if c.why == "group"}
    assert pushed_first == kept[0] - kept[1], "with no history both groups want the same tokens"


@pytest.mark.parametrize("search", SEARCHES, ids=repr)
def test_tracing_changes_no_token_and_no_score(search):
    asked = seeded(search)
    assert found(search, asked={"trace": True, **asked}) == found(search, asked=asked)


def test_only_who_asks_is_told_and_only_with_the_best_answer():
    heard = answers_of(Beam(width=3, n_best=3), asked=params(trace=True))
    assert [events[-1].search_tree is not None for _, events in sorted(heard.items())] == [True, False, False]
    assert all(event.search_tree is None for event in heard[0][:-1])
    assert answers_of(Beam(width=3), asked=params())[0][-1].search_tree is None
    assert answers_of(None, asked=params(trace=True))[0][-1].search_tree is None, "a sample has no tree"


def test_a_search_that_is_cancelled_tells_what_it_did_until_then():
    engine = make_engine(n_pages=64)
    request_id = engine.add(Request(PROMPT, params(trace=True), search=Beam(width=2, n_best=2)))
    for _ in range(3):
        engine.step()
    events = engine.cancel(request_id)
    tree = events[0].search_tree
    assert [step.n_tokens for step in tree.steps] == [1, 2, 3]
    assert [score for _, score in tree.answers] == [event.score for event in events]


def test_a_search_that_is_cancelled_before_its_first_token_has_no_tree():
    engine = make_engine(n_pages=64)
    request_id = engine.add(Request(PROMPT, params(trace=True), search=Beam(width=2)))
    assert [event.search_tree for event in engine.cancel(request_id)] == [None]


def test_a_tree_has_no_more_than_a_number_of_continuations(monkeypatch):
    monkeypatch.setattr(search_tree, "MOST_CONSIDERED", 20)
    whole = answers_of(Beam(width=3), asked=params(trace=True))[0][-1].search_tree
    assert sum(len(step.considered) for step in whole.steps) <= 20
    assert [step.n_tokens for step in whole.steps] == [1, 2, 3]
    assert whole.n_untold == 3


def test_every_reason_is_explained():
    assert set(WHY) == {"rank", "group", "no room", "worse", "stop rule"}
