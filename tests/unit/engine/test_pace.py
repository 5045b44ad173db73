"""How many prompt rows a step takes beside streams: steps stay below the limit and prompts move on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from unspool.engine.pace import Chunk, Pace


@dataclass
class Machine:
    """What steps cost: (1 + noise) * (base + row * rows + token * attended tokens), seconds."""

    base_s: float = 2e-3
    stream_s: float = 0.7e-3
    row_s: float = 0.5e-3
    token_s: float = 0.5e-6
    noise: float = 0.0

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(1)

    def seconds(self, n_decoding: int, chunk: Chunk) -> float:
        quiet = (self.base_s if n_decoding or chunk.n_rows else 0) + n_decoding * self.stream_s
        quiet += chunk.n_rows * self.row_s + chunk.n_attended * self.token_s
        return quiet * (1 + self.noise * float(self.rng.uniform(-1, 1)))


def decode(pace: Pace, machine: Machine, n_decoding: int, n_steps: int = 20) -> None:
    for _ in range(n_steps):
        pace.observe(n_decoding, Chunk(), machine.seconds(n_decoding, Chunk()))


def read(pace: Pace, machine: Machine, n_decoding: int, n_tokens: int, position: int = 0) -> list[tuple]:
    """(rows, seconds) of each step until the prompt is read."""
    steps = []
    while position < n_tokens:
        n_rows = min(pace.n_prompt_rows(n_decoding, 512 - n_decoding, position), n_tokens - position)
        chunk = Chunk.at(position, n_rows)
        seconds = machine.seconds(n_decoding, chunk)
        pace.observe(n_decoding, chunk, seconds)
        steps.append((n_rows, seconds))
        position += n_rows
    return steps


def test_a_chunk_counts_the_tokens_that_each_of_its_rows_attends_to():
    assert Chunk.at(10, 3) == Chunk(3, 11 + 12 + 13)
    assert Chunk.at(10, 3) + Chunk.at(0, 1) == Chunk(4, 37)
    assert Chunk.at(5, 0) == Chunk()


@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("n_decoding", [1, 8, 32])
def test_no_step_passes_the_limit_while_a_long_prompt_is_read(n_decoding, noise):
    machine, pace = Machine(noise=noise), Pace(2.2)
    pace.observe(0, Chunk.at(0, 100), machine.seconds(0, Chunk.at(0, 100)))
    decode(pace, machine, n_decoding)
    steps = read(pace, machine, n_decoding, 4096)
    alone = machine.base_s + n_decoding * machine.stream_s
    slowest = max(seconds for _, seconds in steps)
    assert slowest <= 2.2 * alone * (1 + 3 * noise + 0.01)
    mean = sum(seconds for _, seconds in steps) / len(steps)
    assert mean >= 2.2 * alone * (0.8 if n_decoding > 1 else 0.6)  # the room is used: less than a row is left


def test_the_first_chunk_is_careful_where_nothing_is_known_of_prompts():
    machine, pace = Machine(), Pace(2.2)
    decode(pace, machine, 8)
    steps = read(pace, machine, 8, 4096, position=3000)
    alone = machine.seconds(8, Chunk())
    assert all(seconds <= 2.2 * alone * 1.1 for _, seconds in steps)


def test_late_rows_are_fewer_than_early_ones():
    machine, pace = Machine(), Pace(2.2)
    decode(pace, machine, 8)
    steps = read(pace, machine, 8, 4096)
    assert steps[10][0] >= 2 * steps[-2][0]


def test_a_prompt_moves_on_where_a_single_row_is_too_much():
    machine, pace = Machine(row_s=1.0), Pace(2.2)
    decode(pace, machine, 2)
    assert [n for n, _ in read(pace, machine, 2, 20)] == [1] * 20
    assert {n for n, _ in read(pace, machine, 2, 200, position=20)} == {0, 1}


def test_nothing_is_held_back_where_no_one_waits():
    machine, pace = Machine(), Pace(2.2)
    decode(pace, machine, 4)
    read(pace, machine, 4, 100)
    assert pace.n_prompt_rows(0, 512, 3000) == 512


def test_an_infinite_limit_is_none():
    machine, pace = Machine(), Pace(float("inf"))
    decode(pace, machine, 4)
    read(pace, machine, 4, 1000)
    assert pace.n_prompt_rows(4, 508, 1000) == 508


def test_what_other_numbers_of_streams_cost_bounds_what_is_not_known():
    machine, pace = Machine(), Pace(2.0)
    decode(pace, machine, 16)
    read(pace, machine, 16, 500)
    for n_decoding in (1, 8, 64):
        alone = machine.seconds(n_decoding, Chunk())
        n_rows = pace.n_prompt_rows(n_decoding, 400, 500)
        assert n_rows >= 1
        assert machine.seconds(n_decoding, Chunk.at(500, n_rows)) <= max(2.1 * alone, alone + 2e-3)


def test_a_machine_that_turns_slower_is_noticed():
    machine, pace = Machine(), Pace(2.2)
    decode(pace, machine, 8)
    read(pace, machine, 8, 1000)
    slow = Machine(row_s=4 * machine.row_s, token_s=4 * machine.token_s)
    steps = read(pace, slow, 8, 4096, position=1000)
    alone = machine.seconds(8, Chunk())
    assert max(seconds for _, seconds in steps[60:]) <= 2.2 * alone * 1.1


def test_now_and_then_a_step_goes_without_prompts_since_streams_grow():
    machine, pace = Machine(), Pace(2.2)
    decode(pace, machine, 8)
    short = read(pace, machine, 8, 2000)
    assert 0 < sum(n_rows == 0 for n_rows, _ in short) <= len(short) // 60
    longer = Machine(stream_s=3 * machine.stream_s)
    grown = read(pace, longer, 8, 30_000, position=2000)
    assert grown[-1][1] > 1.5 * longer.seconds(8, Chunk())  # no longer held to what short texts took
