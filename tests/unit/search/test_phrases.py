"""Phrases followed token by token, against looking through the whole text."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from unspool.search.phrases import START, Phrases, Progress

SETS = [
    [[(1, 2)], [(2, 3)]],
    [[(1, 2, 3)], [(2,)]],
    [[(1, 2), (3,)], [(2, 2)]],
    [[(1, 1, 2)], [(1, 2, 1)]],
    [[(1, 2, 1), (2, 2)], [(1, 3)], [(3, 1)]],
]


def contains(text, spelling):
    n = len(spelling)
    return any(tuple(text[i : i + n]) == spelling for i in range(len(text) - n + 1))


def met_of(text, phrases):
    return sum(1 << i for i, spellings in enumerate(phrases) if any(contains(text, s) for s in spellings))


@pytest.mark.parametrize("phrases", SETS)
def test_a_phrase_is_met_when_the_text_contains_one_of_its_spellings(phrases):
    automaton = Phrases(phrases)
    for text in itertools.product((1, 2, 3), repeat=6):
        assert automaton.over(text).met == met_of(text, phrases)


@pytest.mark.parametrize("phrases", SETS)
def test_the_fewest_tokens_are_those_of_the_shortest_text_that_meets_all(phrases):
    automaton = Phrases(phrases)
    for n_before in range(4):
        for text in itertools.product((1, 2, 3), repeat=n_before):
            progress = automaton.over(text)
            least = next(
                n
                for n in range(8)
                for rest in itertools.product((1, 2, 3), repeat=n)
                if automaton.is_complete(automaton.over(rest, progress))
            )
            assert automaton.n_least(progress) == least
            assert automaton.n_needed(progress) >= least
            assert [automaton.fits(progress, n) for n in range(8)] == [n >= least for n in range(8)]


@pytest.mark.parametrize("phrases", SETS)
def test_a_token_that_leads_nowhere_is_never_better_than_one_that_leads(phrases):
    automaton = Phrases(phrases)
    for text in itertools.product((1, 2, 3, 4), repeat=4):
        progress = automaton.over(text)
        leading = automaton.leading(progress).tolist()
        assert leading == sorted(leading)
        for token_id in (1, 2, 3, 4):
            after = automaton.after(progress, token_id)
            if token_id not in leading:
                assert after == automaton.astray(progress)
            assert automaton.n_least(after) <= automaton.n_least(automaton.astray(progress))


def test_a_bank_counts_tokens_of_finished_phrases_and_of_one_that_is_begun():
    automaton = Phrases([[(1, 2, 3)], [(4, 5)]])
    assert automaton.n_tokens == 5
    texts = {
        (): 0,
        (1,): 1,
        (1, 2): 2,
        (1, 2, 4): 1,
        (1, 2, 3): 3,
        (4, 5): 2,
        (4, 5, 1): 3,
        (1, 2, 3, 4, 5): 5,
    }
    assert {text: automaton.n_met(automaton.over(text)) for text in texts} == texts


def test_of_alternatives_the_shortest_counts_and_any_will_do():
    automaton = Phrases([[(1,), (2, 3, 4)]])
    texts = {(): 0, (2,): 0, (2, 3): 0, (1,): 1, (2, 3, 4): 1}
    assert {text: automaton.n_met(automaton.over(text)) for text in texts} == texts


def test_phrases_that_overlap_may_share_tokens():
    automaton = Phrases([[(1, 2)], [(2, 3)]])
    assert automaton.n_needed(START) == 4
    assert automaton.n_least(START) == 3
    assert automaton.is_complete(automaton.over((1, 2, 3)))


def test_of_more_than_ten_phrases_shared_tokens_are_not_counted_on():
    automaton = Phrases([[(i, i + 1)] for i in range(11)])
    assert automaton.fits(START, 22)
    assert not automaton.fits(START, 21)
    assert automaton.fits(Progress(0, 1), 11)


def test_without_phrases_everything_is_met():
    automaton = Phrases([])
    assert automaton.is_complete(START)
    assert automaton.n_met(automaton.over(np.arange(5).tolist())) == 0
