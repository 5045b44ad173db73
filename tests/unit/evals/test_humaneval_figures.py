"""pass@k and best-of-n of judged answers, against values worked out by hand."""

from __future__ import annotations

import pytest

from unspool.evals.figures import answers_of
from unspool.evals.humaneval_figures import sample_figures, single_figures
from unspool.evals.question import Answer
from unspool.evals.selection import chance_of_right, picked
from unspool.search.pass_at_k import wilson
from unspool.search.verifiers.base import Verdict
from unspool.search.verifiers.python_tests import PythonExamples

JUDGE = PythonExamples()


def told(question, *marks):
    """Samples of a problem, each (passed, share of shown examples that hold or None)."""
    return [
        Answer(
            question,
            "sample",
            branch,
            "",
            "stop",
            1,
            {"passed": passed, "shown_score": score, "shown_accepted": None if score is None else score == 1},
        )
        for branch, (passed, score) in enumerate(marks)
    ]


def test_greedy_answers_have_the_score_interval():
    (figure,) = single_figures({"a": told("a", (True, 1.0)), "b": told("b", (False, None))})
    assert figure.interval == wilson(1, 2)
    assert (figure.name, figure.n_problems) == ("pass@1, greedy", 2)


def test_samples_have_pass_at_k_and_the_worth_of_shown_examples():
    samples = {
        "all": told("all", (False, 0.5), (True, 1.0), (False, 0.0), (True, 1.0)),  # 1/2, best is right
        "half": told("half", (False, 1.0), (True, 1.0), (False, 0.0), (False, 0.5)),  # 1/4, best by half
        "none": told(
            "none", *[(passed, None) for passed in (True, True, True, False)]
        ),  # 3/4, no way to pick
    }
    figures = {figure.name: figure for figure in sample_figures(samples, 4, [1, 4])}
    assert list(figures) == [
        "pass@1 of 4 samples",
        "pass@4 of 4 samples",
        "best of 4 by shown examples",
        "margin over one sample",
        "one sample, where examples are shown",
        "best of 4 by shown examples, where examples are shown",
        "margin over one sample, where examples are shown",
    ]
    values = [figure.interval.estimate for figure in figures.values()]
    assert values == pytest.approx([0.5, 1.0, 0.75, 0.25, 0.375, 0.75, 0.375])
    assert [figure.n_problems for figure in figures.values()] == [3] * 4 + [2] * 3
    margin = figures["margin over one sample"]
    assert margin.is_difference
    assert (margin.interval.low, margin.interval.high) == (0.0, 0.5)  # of 0, 1/4, 1/2 drawn three times


@pytest.mark.parametrize("score", [1.0, None])
def test_the_part_with_examples_is_told_only_where_it_is_a_part(score):
    names = [f.name for f in sample_figures({"a": told("a", (True, score), (False, score))}, 2, [1])]
    assert len(names) == 3
    assert not any("where" in name for name in names)


def test_a_single_sample_is_told_where_pass_at_1_is_not():
    names = [f.name for f in sample_figures({"a": told("a", (True, 1.0), (False, 1.0))}, 2, [2])]
    assert names == [
        "pass@2 of 2 samples",
        "one sample",
        "best of 2 by shown examples",
        "margin over one sample",
    ]


def test_one_sample_has_nothing_to_pick_from():
    assert [f.name for f in sample_figures({"a": told("a", (True, 1.0))}, 1, [1])] == ["pass@1 of 1 samples"]


def test_the_pick_is_the_ranking_s_first_and_its_chance_is_the_mean_over_all_orders():
    verdicts = [Verdict(0.5, False), Verdict(1.0, True), Verdict(1.0, True)]
    are_right = [True, False, True]
    assert picked(JUDGE, verdicts) == 1
    assert picked(JUDGE, [*reversed(verdicts)]) == 0
    orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    picks = [are_right[order[picked(JUDGE, [verdicts[i] for i in order])]] for order in orders]
    assert chance_of_right(JUDGE, verdicts, are_right) == sum(picks) / len(picks) == 0.5


def test_answers_are_found_by_question_and_series():
    class Question:
        name = "a"

    class File:
        def __getitem__(self, key):
            return (key.question, key.series, key.branch)

    assert answers_of(File(), [Question], "sample", 2) == {"a": [("a", "sample", 0), ("a", "sample", 1)]}
