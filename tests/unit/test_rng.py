"""Philox against its published answers, and draws that depend on their coordinates alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unspool.rng import LEAST_UPPER_TAIL, Noise, fresh_seed, gumbel_of, philox4x32

ONES = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ONES,) * 4, (ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
    ids=["zeros", "ones", "pi"],
)
def test_philox_gives_the_answers_of_its_authors(counter, key, words):
    counters = np.array(counter, dtype=np.uint64)[:, None]
    assert tuple(philox4x32(counters, key)[:, 0].tolist()) == words


def test_philox_of_many_counters_equals_philox_of_each():
    counters = np.stack([np.full(7, word, dtype=np.uint64) for word in (0, 11, 2, 3)])
    counters[0] = np.arange(7)
    together = philox4x32(counters, (5, 6))
    for i in range(7):
        assert philox4x32(counters[:, i : i + 1], (5, 6))[:, 0].tolist() == together[:, i].tolist()


@pytest.mark.parametrize(
    "picked", [[0], [3], [9999], [0, 1, 2, 3], [5, 77, 4096, 9998], list(range(0, 10_000, 7))]
)
def test_a_draw_does_not_depend_on_which_other_tokens_are_drawn(picked):
    noise = Noise(seed=2**63 + 17, branch=4, position=1000, stage="choose")
    everyone = np.arange(10_000)
    chosen = np.array(picked)
    assert noise.upper_tail(chosen).tolist() == noise.upper_tail(everyone)[chosen].tolist()
    assert noise.gumbel(chosen).tobytes() == noise.gumbel(everyone)[chosen].tobytes()


def test_every_coordinate_changes_the_draw():
    base = {"seed": 1, "branch": 0, "position": 5, "stage": "choose"}
    changes = [{}, {"seed": 2}, {"seed": 1 + 2**32}, {"branch": 1}, {"position": 6}, {"stage": "xtc"}]
    drawn = {Noise(**{**base, **change}).upper_tail(np.arange(4)).tobytes() for change in changes}
    assert len(drawn) == len(changes)
    assert len(set(Noise(**base).upper_tail(np.arange(4000)).tolist())) == 4000


def test_draws_stay_what_they_are_from_one_version_to_the_next():
    noise = Noise(seed=2**40 + 7, branch=1, position=12, stage="choose")
    tails = noise.upper_tail(np.array([0, 1, 17, 70_000])).tolist()
    assert [tail.hex() for tail in tails] == [
        "0x1.94475b8d1f000p-1",
        "0x1.2e8cc7fbde000p-2",
        "0x1.df2e97bf7f000p-1",
        "0x1.ee29ee6687000p-1",
    ]


def test_the_coarse_byte_is_the_first_of_the_uniform():
    noise = Noise(seed=8, branch=0, position=1, stage="choose")
    for n_vocab in (1, 15, 16, 17, 1000):
        tail = noise.upper_tail(np.arange(n_vocab))
        assert noise.coarse(n_vocab).tolist() == np.floor(tail * 256).astype(int).tolist()


def test_uniforms_are_open_and_spread():
    u = Noise(3, 0, 0, "choose").uniform(np.arange(40_000))
    assert 0 < u.min() < 1e-3
    assert 1 - 1e-3 < u.max() < 1
    # standard deviation of the mean is 0.00144: five of them, one false alarm in 1.7 million
    assert abs(u.mean() - 0.5) < 0.0072


def test_the_ends_of_the_range_give_finite_gumbels():
    ends = gumbel_of(np.array([LEAST_UPPER_TAIL, 1 - LEAST_UPPER_TAIL]))
    assert np.isfinite(ends).all()
    assert ends[0] == pytest.approx(41 * math.log(2))


def test_no_tokens_need_no_draws():
    assert Noise(0, 0, 0, "choose").upper_tail(np.array([], dtype=np.intp)).size == 0


def test_fresh_seeds_differ_and_fit_64_bits():
    seeds = {fresh_seed() for _ in range(8)}
    assert len(seeds) == 8
    assert all(0 <= seed < 2**64 for seed in seeds)
