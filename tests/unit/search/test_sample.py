"""The search with one branch."""

from __future__ import annotations

import numpy as np
import pytest

from unspool.params import DecodingParams
from unspool.search.sample import Sample
from unspool.types import Extend, Row


def test_each_branch_grows_by_the_token_that_was_chosen():
    rows = [Row(DecodingParams(), 0, branch, (), 0) for branch in (4, 7)]
    seen = []

    def choose(z, row):
        seen.append(row.branch)
        return int(z.argmax())

    moves = Sample(choose).advance(rows, [np.array([0.0, 1.0]), np.array([2.0, 1.0])])
    assert moves == (Extend(4, (1,)), Extend(7, (0,)))
    assert seen == [4, 7]


def test_rows_and_logits_must_pair_up():
    with pytest.raises(ValueError):
        Sample(lambda z, row: 0).advance([], [np.zeros(2)])


def test_one_branch_is_all_it_ever_has():
    assert Sample(lambda z, row: 0).max_branches == 1
