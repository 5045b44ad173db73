"""The shared check of plans, on the cases that the contract tests do not reach through a runner."""

from __future__ import annotations

import pytest
from random_plans import Part, make_plan

from unspool.runners.plan_check import check_plan
from unspool.runners.toy import ToyRunner

RUNNER = ToyRunner(vocab_size=10, context_length=32, page_size=8, n_pages=4)


def test_an_empty_plan_is_fine():
    check_plan(make_plan([]), RUNNER)


def test_two_sequences_may_read_the_same_full_page():
    check_plan(make_plan([Part([1], 8, [0, 1]), Part([2, 3], 8, [0, 2])]), RUNNER)


def test_two_sequences_may_not_write_the_same_page():
    with pytest.raises(AssertionError, match="page 1 is written twice"):
        check_plan(make_plan([Part([1], 8, [0, 1]), Part([2], 9, [0, 1])]), RUNNER)


def test_a_sequence_may_not_write_one_page_under_two_numbers():
    with pytest.raises(AssertionError, match="page 0 is written twice"):
        check_plan(make_plan([Part([1] * 10, 0, [0, 0])]), RUNNER)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (Part([1] * 9, 0, [0]), "does not cover"),
        (Part([1], 32, [0, 1, 2, 3, 0]), "33 tokens exceeds the context of 32"),
        (Part([10], 0, [0]), r"token_ids must lie in \[0, 10\)"),
        (Part([1], 0, [4]), r"page_table must lie in \[0, 4\)"),
    ],
)
def test_what_is_wrong_is_said_with_the_range(part, message):
    with pytest.raises(AssertionError, match=message):
        check_plan(make_plan([part]), RUNNER)
