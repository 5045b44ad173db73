"""The loop detector against looking at the whole text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unspool.engine.loop import LoopDetector


def slow(token_ids, min_count, max_length):
    """The shortest pattern that the tokens end with min_count times."""
    for m in range(1, max_length + 1):
        pattern = token_ids[len(token_ids) - m :]
        if len(token_ids) >= m * min_count and token_ids[-m * min_count :] == pattern * min_count:
            return m
    return None


@given(st.lists(st.integers(0, 2), max_size=40), st.integers(2, 4), st.integers(1, 5))
def test_it_finds_what_looking_at_the_whole_text_finds(token_ids, min_count, max_length):
    detector = LoopDetector(min_count, max_length)
    for i, token_id in enumerate(token_ids):
        assert detector.accept(token_id) == slow(token_ids[: i + 1], min_count, max_length)


def test_a_pattern_is_found_with_its_last_token_and_not_before():
    detector = LoopDetector(3, 64)
    assert [detector.accept(t) for t in [9, 1, 2, 3, 1, 2, 3, 1, 2, 3]] == [None] * 9 + [3]


def test_a_pattern_longer_than_looked_for_is_none():
    detector = LoopDetector(2, 2)
    assert [detector.accept(t) for t in [1, 2, 3, 1, 2, 3]] == [None] * 6


def test_the_memory_of_tokens_grows_when_it_must():
    detector = LoopDetector(2, 70)
    token_ids = [*range(70), *range(70)]
    assert [detector.accept(t) for t in token_ids] == [None] * 139 + [70]


def test_off_it_finds_nothing():
    detector = LoopDetector(0, 64)
    assert [detector.accept(1) for _ in range(100)] == [None] * 100
    detector.rollback(3)
