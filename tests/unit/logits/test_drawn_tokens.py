"""Tokens are drawn from the stated distribution, method by method, and draws do not know of each other.

Every assertion fails for one seed in a million (`chi_square.FALSE_ALARM`) when the draws are right.
"""

from __future__ import annotations

import numpy as np
import pytest
from chi_square import FALSE_ALARM, odds, tail
from many_draws import drawn, upper_tails
from stage_rows import probs, row, through

from unspool.logits.choose import choose
from unspool.logits.orders import PIPELINE
from unspool.logits.pipeline import process_by_stages
from unspool.param_conflicts import TEMPERATURES, TRUNCATION
from unspool.rng import Noise

P4 = np.array([0.4, 0.3, 0.2, 0.1])
LINE = np.exp([3.0, 2.0, 1.0, 0.0])


def heated(p, temperature):
    weights = np.asarray(p) ** (1 / temperature)
    return weights / weights.sum()


def only(p, *ids):
    left = np.zeros(len(p))
    left[list(ids)] = np.asarray(p)[list(ids)]
    return left / left.sum()


# Stage, parameters, weights that come in, and the distribution that the rule gives, worked out by hand.
STATED = [
    ("choose", {}, P4, P4),
    ("temperature", {"temperature": 2.5}, P4, heated(P4, 2.5)),
    ("dynatemp", {"dynatemp_min": 0.5, "dynatemp_max": 1.5}, P4, heated(P4, 1.423220)),
    ("edt", {"edt_theta": 0.5, "temperature": 2}, P4, heated(P4, 2 * 0.8 ** (0.5 / 1.279854))),
    ("smoothing", {"smoothing_factor": 0.2}, LINE, probs([3, 2.8, 2.2, 1.2])),
    ("top_n_sigma", {"top_n_sigma": 1}, P4, only(P4, 0, 1)),
    ("top_k", {"top_k": 3}, P4, only(P4, 0, 1, 2)),
    ("top_p", {"top_p": 0.7}, P4, only(P4, 0, 1)),
    ("min_p", {"min_p": 0.5}, P4, only(P4, 0, 1, 2)),
    ("typical", {"typical_p": 0.5}, np.array([0.4, 0.2, 0.2, 0.2]), np.array([0, 1, 1, 1]) / 3),
    ("top_h", {"top_h": 0.6}, P4, only(P4, 0, 1)),
    ("epsilon", {"epsilon_cutoff": 0.2}, P4, only(P4, 0, 1, 2)),
    ("eta", {"eta_cutoff": 0.9}, P4, only(P4, 0, 1)),
    ("top_a", {"top_a": 1}, P4, only(P4, 0, 1, 2)),
    (
        "tfs",
        {"tfs_z": 0.9},
        np.array([0.5, 0.3, 0.1, 0.06, 0.04]),
        only([0.5, 0.3, 0.1, 0.06, 0.04], 0, 1, 2),
    ),
    ("xtc", {"xtc_probability": 0.5, "xtc_threshold": 0.25}, P4, np.array([0.2, 0.4, 0.8 / 3, 0.4 / 3])),
    ("mirostat", {"mirostat": 2, "mirostat_tau": 1}, P4, only(P4, 0, 1)),
    ("mirostat", {"mirostat": 1, "mirostat_tau": 1}, 1 / np.arange(1, 5), only(1 / np.arange(1, 5), 0, 1)),
    ("adaptive", {"adaptive_target": 0.3}, np.array([0.6, 0.3, 0.1]), probs([0, 5, 5 - 8 / 3])),
]
ids = [f"{name}-{list(params.values())}" for name, params, _, _ in STATED]


def final_logits(weights, params, n):
    """Logits (n, V) at positions [0, n); only XTC's depend on the position."""
    z = np.log(weights)
    if "xtc_probability" not in params:
        return through(z, row(**params))[None]
    is_on = 1 - upper_tails(1, 0, n, "xtc", 1) < params["xtc_probability"]  # (n, 1)
    first_on, first_off = int(is_on.argmax()), int((~is_on).argmax())
    return np.where(is_on, *(through(z, row(position=at, **params)) for at in (first_on, first_off)))


def test_every_stage_that_shapes_the_distribution_is_drawn_from():
    drawn_from = {name for name, *_ in STATED}
    shaping = {*TEMPERATURES, *TRUNCATION, "mirostat", "adaptive"}
    assert {stage.name for stage in PIPELINE} & shaping <= drawn_from


@pytest.mark.parametrize(("name", "params", "weights", "stated"), STATED, ids=ids)
def test_a_hundred_thousand_tokens_follow_the_stated_distribution(name, params, weights, stated):
    n = 100_000
    tokens = drawn(final_logits(weights, params, n), seed=1, n=n)
    assert odds(np.bincount(tokens, minlength=len(stated)), stated) > FALSE_ALARM


@pytest.mark.parametrize(("name", "params", "weights", "stated"), STATED, ids=ids)
def test_tokens_of_the_whole_pipeline_follow_the_stated_distribution(name, params, weights, stated):
    n = 3000 if np.min(stated[stated > 0]) > 0.02 else 12_000
    rows = [row(seed=77, position=position, **params) for position in range(n)]
    z = np.broadcast_to(np.log(weights).astype(np.float32), (n, len(weights)))
    tokens = [processed.chosen.token_id for processed in process_by_stages(z, rows)]
    assert odds(np.bincount(tokens, minlength=len(stated)), stated) > FALSE_ALARM


@pytest.mark.parametrize("branch", [0, 5])
def test_many_draws_equal_choose(branch):
    z = np.log(np.arange(1, 14))
    tokens = drawn(z, seed=2**63 + 5, branch=branch, n=300)
    assert tokens.tolist() == [choose(z, row(seed=2**63 + 5, branch=branch, position=i)) for i in range(300)]
    noise = Noise(2**63 + 5, branch, 299, "xtc")
    assert (upper_tails(2**63 + 5, branch, 300, "xtc", 13)[-1] == noise.upper_tail(np.arange(13))).all()


def of_seed(seed):
    return drawn(np.log(P4), seed=seed)


def of_branch(branch):
    return drawn(np.log(P4), seed=9, branch=branch)


PAIRS = {
    "neighbouring positions": lambda: (of_seed(9)[:-1], of_seed(9)[1:]),
    "positions 2 apart": lambda: (of_seed(9)[:-2], of_seed(9)[2:]),
    "positions 4096 apart": lambda: (of_seed(9)[:-4096], of_seed(9)[4096:]),
    "neighbouring branches": lambda: (of_branch(0), of_branch(1)),
    "distant branches": lambda: (of_branch(3), of_branch(2**20 + 3)),
    "neighbouring seeds": lambda: (of_seed(0), of_seed(1)),
    "seeds that differ in the high word": lambda: (of_seed(7), of_seed(7 + 2**32)),
    "the next branch's next position": lambda: (of_branch(0)[1:], of_branch(1)[:-1]),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_draws_are_independent_of(pair):
    first, second = PAIRS[pair]()
    counts = np.bincount(4 * first + second, minlength=16)
    assert odds(counts, np.outer(P4, P4)) > FALSE_ALARM


def test_the_die_of_xtc_is_independent_of_the_choice():
    n = 100_000
    die = upper_tails(9, 0, n, "xtc", 1)[:, 0] < 0.5
    counts = np.bincount(2 * drawn(np.log(P4), seed=9, n=n) + die, minlength=8)
    assert odds(counts, np.outer(P4, [0.5, 0.5])) > FALSE_ALARM


def test_the_die_of_xtc_falls_fairly_over_positions_branches_and_seeds():
    for seed, branch in ((0, 0), (0, 1), (1, 0), (2**64 - 1, 7)):
        die = 1 - upper_tails(seed, branch, 20_000, "xtc", 1)[:, 0]
        assert odds(np.histogram(die, bins=20, range=(0, 1))[0], np.full(20, 0.05)) > FALSE_ALARM


def test_first_tokens_over_many_seeds_follow_the_distribution():
    # What users see who ask the same question often: position and branch are fixed, the seed varies.
    z = np.log(P4)
    tokens = [choose(z, row(seed=seed, position=12)) for seed in range(8000)]
    assert odds(np.bincount(tokens, minlength=4), P4) > FALSE_ALARM
    pairs = 4 * np.array(tokens[:-1]) + np.array(tokens[1:])
    assert odds(np.bincount(pairs, minlength=16), np.outer(P4, P4)) > FALSE_ALARM


@pytest.mark.parametrize(
    ("x", "n_free", "expected"),
    [(3.841459, 1, 0.05), (5.991465, 2, 0.05), (7.814728, 3, 0.05), (30.1379, 15, 0.0115)],
)
def test_the_tail_of_chi_square_is_the_tables(x, n_free, expected):
    assert tail(x, n_free) == pytest.approx(expected, rel=0.01)
