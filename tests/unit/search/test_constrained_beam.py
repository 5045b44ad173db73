"""Constrained beam search on the toy engine: the best of the texts that contain what they must."""

from __future__ import annotations

import itertools

import pytest
from searching import PROMPT, answers_of, found, logprobs_after, params
from toy_engine import LETTERS, make_engine

from unspool.errors import BadRequest, NoCandidate
from unspool.search.beam import Beam
from unspool.search.constrained_beam import ConstrainedBeam
from unspool.types import Request

EOS = 0
WIDE = {"n_pages": 2048, "n_rows": 1024}


def contains(ids, spelling):
    return any(ids[i : i + len(spelling)] == spelling for i in range(len(ids)))


def every_text(n_max, ends=(EOS,)):
    for n in range(1, n_max + 1):
        for ids in itertools.product(range(8), repeat=n):
            if not set(ends) & set(ids[:-1]) and (ids[-1] in ends or n == n_max):
                yield ids


def mean_logprob(ids):
    return sum(logprobs_after(PROMPT + ids[:i])[t] for i, t in enumerate(ids)) / len(ids)


@pytest.mark.parametrize(
    "phrases",
    [
        [[(5,)]],
        [[(2, 6)]],
        [[(1, 2), (4,)]],
        [[(3,)], [(7,)]],
        [[(1, 2)], [(2, 3)]],
        [[(6, 6)], [(6,)]],
        [[(2, 4, 1)]],
    ],
)
def test_a_beam_as_wide_as_all_texts_finds_the_best_that_contain_the_phrases(phrases):
    best = sorted(
        (
            ids
            for ids in every_text(3)
            if all(any(contains(ids, spelling) for spelling in phrase) for phrase in phrases)
        ),
        key=mean_logprob,
        reverse=True,
    )[:5]
    search = ConstrainedBeam(phrases=phrases, width=256, n_best=5, early_stopping="exact")
    answers = found(search, asked={"max_tokens": 3}, **WIDE)
    assert [ids for ids, _ in answers] == best
    assert [score for _, score in answers] == pytest.approx([mean_logprob(ids) for ids in best])


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("phrases", [[[5, 6]], [[7], [1, 1]], [[[2, 2, 2], [4, 5]], [3, 1]]])
def test_every_answer_of_a_narrow_beam_contains_every_phrase_too(width, phrases):
    for n_max in (4, 9):
        if n_max < 5 and len(phrases) > 1 and len(phrases[0]) > 2:
            continue
        search = ConstrainedBeam(phrases=phrases, width=width, n_best=width)
        answers = found(search, asked={"max_tokens": n_max})
        assert answers
        for ids, score in answers:
            for phrase in phrases:
                spellings = phrase if isinstance(phrase[0], list) else [phrase]
                assert any(contains(ids, tuple(s)) for s in spellings), (ids, phrase)
            assert score == pytest.approx(mean_logprob(ids))


def test_once_all_phrases_are_there_it_is_a_beam():
    best = found(Beam(width=3, n_best=3))
    first = best[0][0]
    search = ConstrainedBeam(phrases=[[first[0]]], width=4, n_best=1)
    assert found(search)[0][1] >= best[0][1] - 1e-12


def test_a_text_counts_with_a_space_before_it_and_without():
    for phrase in ("ab", " ab"):
        search = ConstrainedBeam(phrases=[phrase], width=8, n_best=4)
        for events in answers_of(search, asked=params(max_tokens=6)).values():
            assert phrase in "".join(event.text for event in events)
    spaced = ConstrainedBeam(phrases=[" ab"]).bound(asked_of()).compiled
    both = ConstrainedBeam(phrases=["ab"]).bound(asked_of()).compiled
    assert (spaced.n_tokens, both.n_tokens) == (2, 1)


def asked_of(**changes):
    from unspool.engine.rules import rules_of, spellings
    from unspool.search.base import Asked

    asked = params(**changes)
    write = lambda text: spellings(text, LETTERS)  # noqa: E731
    return Asked(asked, rules_of(asked, LETTERS), 6, 8, write, LETTERS.token_bytes)


def test_a_stop_string_that_would_cut_a_phrase_ends_no_answer():
    search = ConstrainedBeam(phrases=[[1, 2]], width=8, n_best=8)  # "ab" as two tokens
    for stop in ("ba", "bb", "b\n", " "):
        for events in answers_of(search, asked=params(stop=[stop], max_tokens=7)).values():
            assert "ab" in "".join(event.text for event in events), stop


def test_it_ends_no_answer_before_min_tokens():
    search = ConstrainedBeam(phrases=[[4]], width=4, n_best=4)
    for ids, _ in found(search, asked={"min_tokens": 5, "max_tokens": 8}):
        assert len(ids) >= 6 or EOS not in ids


def test_bans_penalties_and_biases_are_heard():
    search = ConstrainedBeam(phrases=[[[5, 6], [3, 4]]], width=6, n_best=3)
    asked = {"banned_token_ids": [5], "repetition_penalty": 1.3, "logit_bias": {1: 3.0}, "max_tokens": 6}
    for ids, _ in found(search, asked=asked):
        assert contains(ids, (3, 4))
        assert 5 not in ids


def test_the_streamed_text_is_never_taken_back_and_joins_to_the_best_answer():
    search = ConstrainedBeam(phrases=[[4, 4]], width=6)
    heard = answers_of(search, asked=params(max_tokens=14))
    data = b"".join(LETTERS.token_bytes(i) for event in heard[0] for i in event.token_ids)
    assert "".join(event.text for event in heard[0]) == data.decode(errors="replace")


def test_it_finds_the_same_beside_others_and_after_preemption():
    search = ConstrainedBeam(phrases=[[5, 6], [[2, 2], [7, 7]]], width=6, n_best=2)
    asked = params(max_tokens=12, include_stop=True)
    alone = [events[-1].score for _, events in sorted(answers_of(search, asked=asked).items())]
    engine = make_engine(n_pages=40, page_size=2)
    ids = [engine.add(Request(PROMPT, asked, search=search)) for _ in range(3)]
    scores: dict[int, list[float]] = {}
    n_preempted = 0
    while not engine.is_idle:
        for event in engine.step():
            if event.finish_reason is not None:
                scores.setdefault(event.request_id, []).append(event.score)
                n_preempted += event.usage.n_preempted
        engine.check()
    assert n_preempted
    assert [scores[i] for i in ids] == [alone] * 3


def test_a_traced_search_finds_the_same_and_tells_its_banks():
    search = ConstrainedBeam(phrases=[[5, 6]], width=4, n_best=2)
    plain = found(search)
    assert found(search, asked={"trace": True}) == plain
    heard = answers_of(search, asked=params(trace=True, include_stop=True))
    (tree,) = [e.search_tree for events in heard.values() for e in events if e.search_tree is not None]
    path = tree.path(tree.answers[0][0])
    assert tuple(c.token_id for c in path) == plain[0][0]
    assert path[-1].group == 2
    assert {c.group for step in tree.steps for c in step.considered} == {0, 1, 2}


def test_what_bans_leave_impossible_at_run_time_ends_with_the_reason():
    search = ConstrainedBeam(phrases=[[2, 2]], width=4)
    events = answers_of(search, asked=params(no_repeat_ngram_size=1, max_tokens=4))[0]
    assert events[-1].finish_reason == "error"
    assert isinstance(events[-1].error, NoCandidate)
    assert events[-1].error.code == "phrases_unmet"


@pytest.mark.parametrize(
    ("phrases", "asked", "message"),
    [
        (
            [[1, 2, 3, 4]],
            {"max_tokens": 3},
            "the phrases take at least 4 tokens and the answer has room",
        ),
        (
            [[1, 9]],
            {},
            "the phrase (1, 9): it has the token id 9, and this model's ids are [0, 8)",
        ),
        ([[1, 0]], {}, "no answer can contain the phrase (1, 0): its token 0 ends the text"),
        ([[5]], {"banned_token_ids": [5]}, "its token 5 is banned; change one of the two"),
        ([[5]], {"allowed_token_ids": [1, 2]}, "its token 5 is not in allowed_token_ids"),
        (["ab"], {"bad_words": ["ab"]}, "it has one of bad_words"),
        ([[1, 2]], {"stop": ["b"]}, "the stop string 'b' ends the text in it"),
        (["xyz"], {}, "no answer can contain the phrase 'xyz': this model's tokens cannot write it"),
        ([[5]], {"temperature": 0.5}, "has no meaning in a constrained beam search"),
    ],
)
def test_a_phrase_that_no_answer_can_contain_is_refused(phrases, asked, message):
    with pytest.raises(BadRequest) as caught:
        make_engine().add(Request(PROMPT, params(**asked), search=ConstrainedBeam(phrases=phrases)))
    assert message in str(caught.value)


def test_phrases_that_fit_only_because_they_overlap_are_taken():
    search = ConstrainedBeam(phrases=[[1, 2], [2, 3]], width=4)
    assert found(search, asked={"max_tokens": 3})[0][0] == (1, 2, 3)


@pytest.mark.parametrize(
    ("phrases", "message"),
    [
        ([], "phrases must be a list of phrases, got []"),
        ("ab", "phrases must be a list of phrases, got 'ab'"),
        (["ab", "ab"], "phrases holds 'ab' twice"),
        ([""], "a phrase must be a text, a list of token ids, or a list of alternatives, got ''"),
        ([3], "got 3; write phrases=['a text', [12, 7], ['one way', 'another']]"),
        ([["a", 3]], "a phrase must be a text"),
        ([[True]], "a phrase must be a text"),
        ([f"{i}" for i in range(65)], "phrases must be at most 64, got 65"),
    ],
)
def test_a_mistake_is_told_with_the_way_out(phrases, message):
    with pytest.raises(BadRequest) as caught:
        ConstrainedBeam(phrases=phrases)
    assert message in str(caught.value)
