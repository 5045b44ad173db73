"""Word problems: each answer worked out once more, from the text of the question alone."""

from __future__ import annotations

import re

import pytest

from unspool.errors import BadRequest
from unspool.evals.word_problems import STORIES, word_problems

# What a reader would work out, from the numbers in the order in which the text has them.
SOLUTIONS = {
    "notebooks": lambda n, price, m, other, paid: paid - n * price - m * other,
    "bus": lambda start, off, on, end: start - off + on - end,
    "hens": lambda hens, days, broken, size: (hens * days - broken) // size,
    "reads": lambda pages, first, faster, days: first * pages + days * (pages + faster),
    "spends": lambda has, earns, spends, weeks: has + weeks * (earns - spends),
    "theatre": lambda rows, seats, empty, price: (rows * seats - empty) * price,
    "recipe": lambda serves, flour, people, extra: exact(flour * people, serves) + extra,
    "lorry": lambda hours, fast, more, slow, way: way - hours * fast - more * slow,
    "shells": lambda am, pm, kept, friends, gives: exact(am + pm - kept, friends) - gives,
    "tank": lambda at_first, tap, leak, minutes: at_first + minutes * (tap - leak),
    "mother": lambda times, age, years: times * age + years,
    "orchard": lambda trees, apples, given, shops: exact(trees * apples - given, shops),
}


def exact(a, b):
    assert a % b == 0, "the story says equally"
    return a // b


@pytest.mark.parametrize("seed", range(25))
def test_the_answer_is_what_the_question_says(seed):
    for problem in word_problems(2 * len(STORIES), seed=seed):
        numbers = [int(number) for number in re.findall(r"\d+", problem.question)]
        (solve,) = [solve for word, solve in SOLUTIONS.items() if word in problem.question]
        assert solve(*numbers) == problem.answer, problem.question
        assert problem.answer >= 0
        assert 2 <= problem.n_steps <= 4


def test_a_seed_repeats_them_another_changes_them_and_fewer_are_the_first_of_more():
    many = word_problems(40, seed=1)
    assert word_problems(15, seed=1) == many[:15]
    assert len({problem.question for problem in many}) == 40
    assert len({problem.name for problem in many}) == 40
    assert not {p.question for p in many} & {p.question for p in word_problems(40, seed=2)}


def test_all_stories_take_turns():
    assert len(SOLUTIONS) == len(STORIES)
    first = word_problems(len(STORIES), seed=0)
    assert {word for word in SOLUTIONS for problem in first if word in problem.question} == set(SOLUTIONS)


@pytest.mark.parametrize("n", [0, -1, True, "5"])
def test_a_number_of_problems_below_one_is_refused(n):
    with pytest.raises(BadRequest, match="at least 1 problem"):
        word_problems(n, seed=0)
