"""What the native sampler is asked in a wrong way is an error of Python's, and what it points to stays."""

from __future__ import annotations

import gc
import re
from typing import Any

import numpy as np
import pytest

from unspool import _native

BIAS, TOP_K = 8, 14  # kinds, see csrc/sampling/program.h
HUGE = np.array([-(2**31), -1, 2**31 - 1], np.int32)
IDS, AMOUNTS = np.array([1], np.int32), np.array([1.0])


def logits(n_rows: int = 1, n_vocab: int = 7) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n_rows, n_vocab)).astype(np.float32)


def line(**changes: Any) -> tuple[Any, ...]:
    parts = {
        "program": _native.Program(False), "seed": 1, "branch": 0, "position": 5, "n_output": 2,
        "running": 0.0, "tally": None, "dry": None, "banned": None, "candidates": False,
    }  # fmt: skip
    return tuple((parts | changes).values())


def standing(**changes: Any) -> tuple[Any, ...]:
    parts = {
        "program": _native.Program(False), "seed": 1, "branch": 0, "n_prompt": 1, "token_ids": [1, 2],
        "tally": None,
    }  # fmt: skip
    return tuple((parts | changes).values())


@pytest.fixture
def sampler() -> _native.Sampler:
    return _native.Sampler(2, "")


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"program": "x"}, TypeError, "part 0"),
        ({"seed": -1}, TypeError, "part 1"),
        ({"branch": 2**32}, TypeError, "part 2"),
        ({"running": "x"}, TypeError, "part 5"),
        ({"tally": 5}, TypeError, "part 6"),
        ({"dry": 5}, TypeError, "tuple"),
        ({"dry": (IDS,)}, ValueError, "2 parts"),
        ({"dry": (IDS.astype(np.int64), AMOUNTS)}, ValueError, "type or layout"),
        ({"dry": (HUGE, AMOUNTS)}, ValueError, "lengths"),
        ({"banned": [1]}, ValueError, "type or layout"),
        ({"banned": np.arange(6, dtype=np.int32)[::2]}, ValueError, "type or layout"),
        ({"candidates": "x"}, ValueError, "number of candidates"),
        ({"candidates": -1}, ValueError, "number of candidates"),
    ],
)
def test_a_row_of_the_wrong_parts_is_refused(sampler: Any, changes: Any, error: type, says: str) -> None:
    with pytest.raises(error, match=says):
        sampler.run(logits(), [line(**changes)])


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"program": 5}, TypeError, "part 0"),
        ({"n_prompt": -1}, TypeError, "part 3"),
        ({"token_ids": (1, 2)}, TypeError, "part 4"),
        ({"tally": 5}, TypeError, "part 5"),
    ],
)
def test_a_standing_row_of_the_wrong_parts_is_refused(changes: Any, error: type, says: str) -> None:
    with pytest.raises(error, match=says):
        _native.StandingRows([standing(**changes)])


def test_a_row_is_a_tuple_of_all_its_parts(sampler: Any) -> None:
    for row, says in (([*line()], "tuple"), (5, "tuple")):
        with pytest.raises(TypeError, match=says):
            sampler.run(logits(), [row])
        with pytest.raises(TypeError, match=says):
            _native.StandingRows([row])
    with pytest.raises(ValueError, match="10 parts, got 2"):
        sampler.run(logits(), [line()[:2]])
    with pytest.raises(ValueError, match="6 parts, got 2"):
        _native.StandingRows([standing()[:2]])


@pytest.mark.parametrize(
    ("changing", "error", "says"),
    [
        ((1, 0.0, None, None), ValueError, "no row 1"),
        ((-1, 0.0, None, None), TypeError, "part 0"),
        ((0, None, None, None), TypeError, "part 1"),
        ((0, 0.0, None), ValueError, "4 parts"),
        (5, TypeError, "tuple"),
    ],
)
def test_a_change_of_no_standing_row_is_refused(sampler: Any, changing: Any, error: type, says: str) -> None:
    with pytest.raises(error, match=says):
        sampler.choose(logits(), _native.StandingRows([standing()]), [changing])


@pytest.mark.parametrize(
    "array",
    [np.zeros((1, 7)), np.zeros(7, np.float32), np.broadcast_to(np.float32(0), (1, 7)), [[0.0]]],
    ids=["float64", "one row", "read only", "list"],
)
def test_logits_of_another_kind_are_refused(sampler: Any, array: Any) -> None:
    with pytest.raises(TypeError):
        sampler.run(array, [line()])
    with pytest.raises(TypeError):
        sampler.choose(array, _native.StandingRows([standing()]), [])


def test_no_rows_are_no_answers(sampler: Any) -> None:
    assert sampler.run(logits(0), []) == []
    assert sampler.choose(logits(0), _native.StandingRows([]), []) == []
    with pytest.raises(ValueError, match=re.escape("one row for each line of logits")):
        sampler.choose(logits(2), _native.StandingRows([standing()]), [])


def test_ids_beyond_the_vocabulary_are_nobodys(sampler: Any) -> None:
    tally = _native.Tally()
    for token_id in HUGE.tolist():
        tally.add(0, token_id, 3)
    row = line(tally=tally, dry=(HUGE, np.ones(3)), banned=HUGE)
    assert sampler.run(logits(), [row]) == sampler.run(logits(), [line()])


@pytest.mark.parametrize("n_values", [0, 1, 3])
def test_a_bias_has_a_value_for_each_token(n_values: int) -> None:
    with pytest.raises(ValueError, match="lengths"):
        _native.Program(False).add(BIAS, 0, 0, 0, False, [1, 2], [1.0] * n_values)


def test_values_that_nobody_reads_are_refused() -> None:
    with pytest.raises(ValueError, match="lengths"):
        _native.Program(False).add(TOP_K, 3, 0, 0, False, [1], [1.0])


def test_standing_rows_hold_what_they_are_made_of(sampler: Any) -> None:
    def made(n: int) -> list[Any]:
        rows = []
        for i in range(n):
            program, tally = _native.Program(True), _native.Tally()
            program.add(BIAS, 0, 0, 0, False, [i % 7], [100.0])
            tally.add(0, i, 1)
            rows.append(standing(program=program, tally=tally))
        return rows

    rows = made(14)
    kept = _native.StandingRows(rows)
    rows.clear()  # the list is its maker's
    gc.collect()
    others = made(200)  # where they lay
    assert [made[0] for made in sampler.choose(logits(14), kept, [])] == [i % 7 for i in range(14)]
    assert len(others) == 200
