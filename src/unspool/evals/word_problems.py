"""Arithmetic word problems, made up from a seed: two to four steps, whole numbers all the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from unspool.errors import BadRequest, brief
from unspool.light_dataclass import dataclass

_NAMES: Final = ("Amara", "Bruno", "Chiara", "Dmitri", "Elif", "Farid", "Greta", "Hana", "Ivo", "Jun")


@dataclass(frozen=True, slots=True)
class WordProblem:
    """A question with one whole number as its answer."""

    name: str
    question: str
    answer: int
    n_steps: int  # operations that the shortest way takes


class _Dice:
    """Numbers and names in the order in which a story asks for them."""

    def __init__(self, draw: np.random.Generator) -> None:
        self._draw = draw

    def number(self, low: int, high: int) -> int:
        """A whole number in [low, high]."""
        return int(self._draw.integers(low, high + 1))

    def name(self) -> str:
        return _NAMES[self.number(0, len(_NAMES) - 1)]


_Story: TypeAlias = Callable[[_Dice], tuple[str, int, int]]  # question, answer, steps


def _shopping(dice: _Dice) -> tuple[str, int, int]:
    who, n, price, m, other = (
        dice.name(), dice.number(3, 9), dice.number(4, 17), dice.number(2, 8), dice.number(3, 12)
    )  # fmt: skip
    cost = n * price + m * other
    paid = cost + dice.number(5, 60)
    return (
        f"{who} buys {n} notebooks for {price} dollars each and {m} pens for {other} dollars each, and pays "
        f"with {paid} dollars. How many dollars of change does {who} get?",
        paid - cost,
        4,
    )


def _bus(dice: _Dice) -> tuple[str, int, int]:
    start, off, on = dice.number(21, 58), dice.number(4, 19), dice.number(3, 25)
    left = start - off + on
    end = dice.number(2, left - 1)
    return (
        f"A bus leaves the depot with {start} passengers. At the first stop {off} get off and {on} get on. "
        f"At the second stop some get off, and {end} stay on board. How many got off at the second stop?",
        left - end,
        3,
    )


def _eggs(dice: _Dice) -> tuple[str, int, int]:
    hens, days, broken, size = dice.number(6, 19), dice.number(5, 14), dice.number(2, 11), dice.number(4, 12)
    boxes = (hens * days - broken) // size
    broken = hens * days - boxes * size
    return (
        f"Each of {hens} hens lays one egg a day. After {days} days {broken} of the eggs turn out to be "
        f"broken. The others are packed into boxes of {size}. How many boxes are filled?",
        boxes,
        3,
    )


def _reading(dice: _Dice) -> tuple[str, int, int]:
    who, first, pages, days = dice.name(), dice.number(3, 9), dice.number(12, 37), dice.number(4, 12)
    faster = dice.number(5, 20)
    total = first * pages + days * (pages + faster)
    return (
        f"{who} reads {pages} pages a day for {first} days. After that {who} reads {faster} pages more each "
        f"day than before, and finishes the book in another {days} days. How many pages does the book have?",
        total,
        4,
    )


def _savings(dice: _Dice) -> tuple[str, int, int]:
    who, earned, spent, weeks = dice.name(), dice.number(35, 95), dice.number(8, 30), dice.number(4, 16)
    at_first = dice.number(15, 140)
    return (
        f"{who} has {at_first} dollars, earns {earned} dollars a week and spends {spent} of them every week. "
        f"How many dollars does {who} have after {weeks} weeks?",
        at_first + weeks * (earned - spent),
        3,
    )


def _theatre(dice: _Dice) -> tuple[str, int, int]:
    rows, seats, empty, price = dice.number(8, 24), dice.number(9, 21), dice.number(7, 48), dice.number(6, 15)
    return (
        f"A theatre has {rows} rows of {seats} seats. Tonight {empty} seats stay empty, and each of the "
        f"others was sold for {price} dollars. How many dollars did the theatre take?",
        (rows * seats - empty) * price,
        3,
    )


def _baking(dice: _Dice) -> tuple[str, int, int]:
    serves, per, times = dice.number(3, 6), dice.number(15, 60), dice.number(3, 9)
    extra = dice.number(20, 90)
    return (
        f"A recipe for {serves} people takes {serves * per} grams of flour. A baker makes it for "
        f"{serves * times} people and uses {extra} grams more for dusting. How many grams of flour are used?",
        serves * per * times + extra,
        3,
    )


def _journey(dice: _Dice) -> tuple[str, int, int]:
    fast, hours, slow, more = dice.number(62, 118), dice.number(2, 6), dice.number(24, 58), dice.number(2, 5)
    total = fast * hours + slow * more
    planned = total + dice.number(15, 220)
    return (
        f"A lorry drives {hours} hours at {fast} kilometres an hour and then {more} hours at {slow} "
        f"kilometres an hour. The whole way is {planned} kilometres. How many kilometres are left?",
        planned - total,
        4,
    )


def _sharing(dice: _Dice) -> tuple[str, int, int]:
    who, friends, each, kept = dice.name(), dice.number(4, 11), dice.number(6, 19), dice.number(5, 23)
    bags = dice.number(2, 5)
    total = friends * each + kept
    first = dice.number(total // 3, total // 2)
    return (
        f"{who} collects {first} shells in the morning and {total - first} in the afternoon, keeps {kept} of "
        f"them and shares the rest equally among {friends} friends. Each friend gives {bags} shells away. "
        "How many shells does each friend have then?",
        each - bags,
        4,
    )


def _tank(dice: _Dice) -> tuple[str, int, int]:
    into, out, minutes, at_first = (
        dice.number(14, 38), dice.number(3, 11), dice.number(12, 45), dice.number(30, 160)
    )  # fmt: skip
    return (
        f"A tank holds {at_first} litres. A tap adds {into} litres a minute while a leak loses {out} litres "
        f"a minute. How many litres does the tank hold after {minutes} minutes?",
        at_first + minutes * (into - out),
        3,
    )


def _ages(dice: _Dice) -> tuple[str, int, int]:
    who, child, years, times = dice.name(), dice.number(4, 13), dice.number(3, 15), dice.number(3, 5)
    return (
        f"{who}'s mother is {times} times as old as {who}, who is {child}. How old will the mother be in "
        f"{years} years?",
        times * child + years,
        2,
    )


def _orchard(dice: _Dice) -> tuple[str, int, int]:
    trees, apples, crate = dice.number(7, 26), dice.number(18, 55), dice.number(2, 9)
    given = dice.number(15, 90)
    left = trees * apples - given
    given += left % crate
    return (
        f"An orchard has {trees} trees, and {apples} apples are picked from each. {given} apples are given "
        f"away, and the rest is divided equally among {crate} shops. How many apples does each shop get?",
        left // crate,
        3,
    )


STORIES: Final[tuple[_Story, ...]] = (
    _shopping, _bus, _eggs, _reading, _savings, _theatre, _baking, _journey, _sharing, _tank, _ages, _orchard
)  # fmt: skip


def word_problems(n: int, *, seed: int) -> list[WordProblem]:
    """n problems; all stories take turns. The first of more problems are those of fewer."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise BadRequest(f"there must be at least 1 problem, got {brief(n)}", code="bad_problems")
    problems = []
    for index in range(n):
        story = STORIES[index % len(STORIES)]
        question, answer, n_steps = story(_Dice(np.random.Generator(np.random.Philox(key=[seed, index]))))
        problems.append(WordProblem(f"arithmetic/{index}", question, answer, n_steps))
    return problems
