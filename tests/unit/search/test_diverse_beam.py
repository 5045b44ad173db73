"""Diverse beam search: groups that avoid each other's words."""

from __future__ import annotations

import itertools

import pytest
from searching import PROMPT, found, params
from toy_engine import make_engine

from unspool.errors import BadRequest
from unspool.search.beam import Beam
from unspool.search.diverse_beam import DiverseBeam
from unspool.types import Request


def first_tokens(strength, seed=0):
    prompt = tuple((i * 3 + seed) % 7 + 1 for i in range(4))
    search = DiverseBeam(width=4, groups=4, strength=strength, n_best=4)
    return [ids[0] for ids, _ in found(search, prompt=prompt)]


def test_one_group_is_plain_beam_search():
    for width in (1, 3):
        diverse = found(DiverseBeam(width=width, groups=1, strength=2, n_best=width))
        assert diverse == found(Beam(width=width, n_best=width))


def test_without_strength_every_group_finds_the_same():
    search = DiverseBeam(width=6, groups=3, strength=0, n_best=6)
    answers = found(search)
    alone = found(Beam(width=2, n_best=2))
    assert sorted(answers) == sorted(alone * 3)


def test_more_strength_always_gives_more_distinct_first_tokens():
    counts = [
        sum(len(set(first_tokens(strength, seed))) for seed in range(12)) for strength in (0, 0.3, 1, 3, 50)
    ]
    assert counts[0] == 12
    assert all(fewer < more for fewer, more in itertools.pairwise(counts))
    assert counts[-1] == 48


def test_a_score_has_nothing_of_the_penalty():
    best = found(Beam(width=1))[0]
    assert best in found(DiverseBeam(width=3, groups=3, strength=5, n_best=3))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"width": 5, "groups": 2},
            "must divide the width, got width=5 and groups=2; take a width of 6",
        ),
        ({"groups": 9}, "groups must be a whole number in [1, 4], got 9"),
        ({"strength": -1}, "strength must be a number in [0, 100], got -1; 0 makes all groups equal"),
    ],
)
def test_a_mistake_is_told_with_value_and_range(changes, message):
    with pytest.raises(BadRequest) as caught:
        DiverseBeam(**changes)
    assert message in str(caught.value)


def test_drawing_parameters_are_refused():
    with pytest.raises(BadRequest, match=r"top_p=0\.5 has no meaning in a diverse beam search"):
        make_engine().add(Request(PROMPT, params(top_p=0.5), search=DiverseBeam()))
