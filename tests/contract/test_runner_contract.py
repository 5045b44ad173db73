"""What every runner promises: the logits of a row depend on its own sequence, bit for bit."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_plans import Part, make_plan, pages_for, random_steps
from runners_under_test import RUNNERS
from tiny_models import TINY_SPECS, TinySpec, tiny_source

from unspool.runners.base import Runner

N_PAGES, PAGE_SIZE = 24, 16
LENGTHS = (42, 16, 3, 1, 27)  # the first is longer than every window; 16 ends on a page's last slot


@pytest.fixture(params=RUNNERS)
def make_runner(request):
    return RUNNERS[request.param]


@pytest.fixture(params=TINY_SPECS, ids=lambda spec: spec.label)
def runner(make_runner, request):
    runner = make_runner(tiny_source(request.param), n_pages=N_PAGES, page_size=PAGE_SIZE)
    yield runner
    runner.close()


@pytest.fixture
def small_runner(make_runner):
    runner = make_runner(tiny_source(TinySpec()), n_pages=N_PAGES, page_size=PAGE_SIZE)
    yield runner
    runner.close()


def random_sequences(seed: int, vocab_size: int, lengths=LENGTHS) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, vocab_size, length).tolist() for length in lengths]


def alone(runner: Runner, tokens: list[int]) -> np.ndarray:
    """(T, V) logits of every position, computed token by token on pages in order."""
    pages = range(pages_for(len(tokens), PAGE_SIZE))
    return np.concatenate(
        [runner.forward(make_plan([Part([token], n_past, pages)])) for n_past, token in enumerate(tokens)]
    )


def test_logits_are_float32_of_the_promised_shape(runner):
    logits = runner.forward(make_plan([Part([1, 2, 3], 0, [0])], [0, 2]))
    assert logits.shape == (2, runner.vocab_size)
    assert logits.dtype == np.float32
    assert np.all(np.isfinite(logits))


def test_a_row_is_bit_identical_alone_and_in_random_batches_chunks_and_pages(runner):
    sequences = random_sequences(1, runner.vocab_size)
    expected = [alone(runner, tokens) for tokens in sequences]
    for seed in range(3):
        rng = np.random.default_rng(seed)
        for step in random_steps(rng, sequences, page_size=PAGE_SIZE, n_pages=N_PAGES, all_logits=seed > 0):
            logits = runner.forward(step.plan)
            assert len(logits) == len(step.owners)
            for row, (sequence, position) in zip(logits, step.owners, strict=True):
                assert np.array_equal(row, expected[sequence][position]), (seed, sequence, position)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32 - 1),
    lengths=st.lists(st.integers(1, 24), min_size=1, max_size=8),
    max_chunk=st.integers(1, 24),
)
def test_any_schedule_of_any_sequences_gives_the_bits_of_each_alone(small_runner, seed, lengths, max_chunk):
    sequences = random_sequences(seed, small_runner.vocab_size, lengths)
    expected = [alone(small_runner, tokens) for tokens in sequences]
    rng = np.random.default_rng(seed)
    for step in random_steps(
        rng, sequences, page_size=PAGE_SIZE, n_pages=N_PAGES, max_chunk=max_chunk, all_logits=False
    ):
        logits = small_runner.forward(step.plan)
        wanted = [expected[sequence][position] for sequence, position in step.owners]
        assert np.array_equal(logits, np.reshape(wanted, logits.shape))


@pytest.mark.parametrize("chunk", [1, 2, 5, 7, 8, 9, 15, 16, 17, 40])
def test_every_split_of_a_prompt_gives_the_same_bits(small_runner, chunk):
    (tokens,) = random_sequences(2, small_runner.vocab_size, (42,))
    whole = small_runner.forward(make_plan([Part(tokens, 0, [5, 2, 7])]))
    pieces = [
        small_runner.forward(make_plan([Part(tokens[start : start + chunk], start, [9, 0, 4])]))
        for start in range(0, len(tokens), chunk)
    ]
    assert np.array_equal(np.concatenate(pieces), whole)


@pytest.mark.parametrize("n_sequences", [2, 3, 8, 17, 24])
def test_a_decode_row_is_bit_identical_in_batches_of_any_size(small_runner, n_sequences):
    sequences = random_sequences(3, small_runner.vocab_size, (5,) * n_sequences)
    together = [
        small_runner.forward(make_plan([Part([tokens[t]], t, [b]) for b, tokens in enumerate(sequences)]))
        for t in range(5)
    ]
    for b, tokens in enumerate(sequences):
        assert np.array_equal(np.stack([logits[b] for logits in together]), alone(small_runner, tokens))


def test_logits_of_some_rows_equal_those_rows_of_all(runner):
    parts = [
        Part(tokens, 0, [3 * b, 3 * b + 1, 3 * b + 2])
        for b, tokens in enumerate(random_sequences(4, runner.vocab_size, (18, 7, 35)))
    ]
    full = runner.forward(make_plan(parts))
    for wanted in ([], [0], [59], [17, 24, 59], list(range(60))):
        assert np.array_equal(runner.forward(make_plan(parts, wanted)), full[wanted])


def test_a_later_row_never_changes_an_earlier_one(runner):
    tokens, other = random_sequences(5, runner.vocab_size, (24, 24))
    first = runner.forward(make_plan([Part(tokens, 0, [0, 1])]))
    second = runner.forward(make_plan([Part(tokens[:12] + other[12:], 0, [0, 1])]))
    assert np.array_equal(first[:12], second[:12])
    assert not np.array_equal(first[12:], second[12:])


def test_earlier_tokens_matter(runner):
    """A runner that ignored its cache would pass every test of equality here."""
    tokens, other = random_sequences(6, runner.vocab_size, (2, 2))
    runner.forward(make_plan([Part(tokens[:1], 0, [0])]))
    first = runner.forward(make_plan([Part(tokens[1:], 1, [0])]))
    runner.forward(make_plan([Part(other[:1], 0, [0])]))
    assert not np.array_equal(runner.forward(make_plan([Part(tokens[1:], 1, [0])])), first)


def test_stale_values_on_a_page_do_not_matter(runner):
    tokens, other = random_sequences(7, runner.vocab_size, (23, 48))
    fresh = runner.forward(make_plan([Part(tokens, 0, [0, 1])]))
    runner.forward(make_plan([Part(other, 0, [5, 6, 7])]))
    assert np.array_equal(runner.forward(make_plan([Part(tokens, 0, [6, 5])])), fresh)


def test_a_copied_page_continues_like_the_original(runner):
    tokens, next_token = random_sequences(8, runner.vocab_size, (23, 1))
    runner.forward(make_plan([Part(tokens, 0, [4, 2])]))
    runner.copy_page(2, 9)  # the partial page of a fork; page 4 stays shared
    original = runner.forward(make_plan([Part(next_token, 23, [4, 2])]))
    forked = runner.forward(make_plan([Part(next_token, 23, [4, 9])]))
    assert np.array_equal(forked, original)


def test_forks_that_share_full_pages_do_not_disturb_each_other(runner):
    tokens, left, right = random_sequences(9, runner.vocab_size, (20, 17, 17))
    runner.forward(make_plan([Part(tokens, 0, [0, 1])]))
    runner.copy_page(1, 5)
    both = runner.forward(make_plan([Part(left, 20, [0, 1, 2]), Part(right, 20, [0, 5, 6])]))
    assert np.array_equal(both[:17], alone(runner, tokens + left)[20:])
    assert np.array_equal(both[17:], alone(runner, tokens + right)[20:])


def test_rolling_back_and_writing_again_gives_the_same_bits(runner):
    """What a rejected draft does: its rows are simply overwritten."""
    tokens, draft = random_sequences(10, runner.vocab_size, (28, 9))
    expected = alone(runner, tokens)
    runner.forward(make_plan([Part(tokens[:18], 0, [3, 8])]))
    runner.forward(make_plan([Part(draft, 18, [3, 8])]))
    assert np.array_equal(runner.forward(make_plan([Part(tokens[18:], 18, [3, 8])])), expected[18:])


def test_an_empty_sequence_in_a_plan_is_no_trouble(small_runner):
    parts = [Part([], 0, []), Part([5, 6], 0, [1]), Part([], 0, [])]
    expected = small_runner.forward(make_plan([Part([5, 6], 0, [2])]))
    assert np.array_equal(small_runner.forward(make_plan(parts)), expected)


GOOD = make_plan([Part([1, 2, 3], 0, [0]), Part([4], 16, [1, 2])])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("token_ids", [1, 2, 3, 96]),
        ("token_ids", [1, 2, -1, 4]),
        ("seq_start", [0, 3, 3]),
        ("seq_start", [1, 3, 4]),
        ("seq_start", [0, 4]),
        ("n_past", [0, -1]),
        ("n_past", [0, 32]),
        ("n_past", [0, 2**30]),
        ("page_table", [0, 1, N_PAGES]),
        ("page_table", [0, 1, -1]),
        ("page_table", [0, 1, 0]),
        ("page_start", [0, 1, 2]),
        ("page_start", [0, 2, 1, 3]),
        ("logits_rows", [4]),
        ("logits_rows", [-1]),
        ("logits_rows", [2, 1]),
        ("logits_rows", [1, 1]),
    ],
)
def test_a_plan_that_breaks_its_own_rules_is_refused(small_runner, field, value):
    small_runner.forward(GOOD)
    broken = dataclasses.replace(GOOD, **{field: np.asarray(value, np.int32)})
    with pytest.raises(AssertionError):
        small_runner.forward(broken)


@pytest.mark.parametrize(("source", "target"), [(-1, 0), (0, -1), (N_PAGES, 0), (0, N_PAGES)])
def test_copying_a_page_that_is_not_there_is_refused(small_runner, source, target):
    with pytest.raises(AssertionError):
        small_runner.copy_page(source, target)


def test_close_can_be_called_twice(make_runner):
    runner = make_runner(tiny_source(TinySpec()), n_pages=2, page_size=PAGE_SIZE)
    assert [runner.close(), runner.close()] == [None, None]
