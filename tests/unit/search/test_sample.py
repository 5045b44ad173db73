"""The search with one branch."""

from __future__ import annotations

import pytest

from unspool.params import DecodingParams
from unspool.search.sample import Sample
from unspool.types import Chosen, Extend, Processed, Row


def test_each_branch_grows_by_the_token_that_was_chosen():
    rows = [Row(DecodingParams(), 0, branch, (), 0) for branch in (4, 7)]
    chosen = [Chosen(1), Chosen(0, observed=2.5)]
    moves = Sample().advance(rows, [Processed(c) for c in chosen])
    assert moves == (Extend(4, (chosen[0],)), Extend(7, (chosen[1],)))


def test_rows_and_what_became_of_them_must_pair_up():
    with pytest.raises(ValueError):
        Sample().advance([], [Processed(Chosen(0))])


def test_it_has_one_branch_and_looks_at_no_other_candidates():
    assert (Sample().max_branches, Sample().wants_candidates) == (1, False)
