"""The search with one branch."""

from __future__ import annotations

import pytest

from unspool.params import DecodingParams
from unspool.search.sample import Sample
from unspool.types import Chosen, Extend, Fork, Processed, Row


def test_each_branch_grows_by_the_token_that_was_chosen():
    rows = [Row(DecodingParams(), 0, branch, (1, 2), 1) for branch in (4, 7)]
    chosen = [Chosen(1), Chosen(0, observed=2.5)]
    moves = Sample().advance(None, rows, [Processed(c) for c in chosen]).moves
    assert moves == (Extend(4, (chosen[0],)), Extend(7, (chosen[1],)))


def test_rows_and_what_became_of_them_must_pair_up():
    with pytest.raises(ValueError):
        Sample().advance(None, [Row(DecodingParams(), 0, 0, (1, 2), 1)], [])


def test_at_the_end_of_the_prompt_every_answer_gets_a_branch_of_its_own():
    rows = [Row(DecodingParams(), 0, branch, (1, 2), 2) for branch in range(3)]
    chosen = [Chosen(5), Chosen(6), Chosen(7)]
    moves = Sample(3).advance(None, rows, [Processed(c) for c in chosen]).moves
    assert moves == (Fork(0, 1), Fork(0, 2), *(Extend(i, (chosen[i],)) for i in range(3)))


@pytest.mark.parametrize("n", [1, 5])
def test_it_has_as_many_branches_as_answers_and_looks_at_no_other_candidates(n):
    search = Sample(n)
    assert (search.n_first, search.max_branches, search.wants_candidates) == (n, n, False)
