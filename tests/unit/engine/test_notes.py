"""What is known about tokens is told with them."""

from __future__ import annotations

import pytest

from unspool.engine.notes import Notes
from unspool.types import Chosen


def test_notes_come_out_with_the_ids_that_are_told():
    notes = Notes()
    chosen = [Chosen(i) for i in (4, 5, 6)]
    for each in chosen:
        notes.accept(each)
    assert notes.take(()) == []
    assert notes.take((4, 5)) == chosen[:2]
    assert notes.take((6,)) == chosen[2:]


def test_a_fork_goes_its_own_way():
    notes = Notes()
    notes.accept(Chosen(1))
    other = notes.fork()
    notes.accept(Chosen(2))
    other.accept(Chosen(3))
    assert notes.take((1, 2)) == [Chosen(1), Chosen(2)]
    assert other.take((1, 3)) == [Chosen(1), Chosen(3)]


def test_text_and_notes_out_of_step_are_noticed():
    notes = Notes()
    notes.accept(Chosen(1))
    with pytest.raises(AssertionError, match="out of step"):
        notes.take((2,))


def test_where_nobody_asked_nothing_is_kept():
    notes = Notes(is_wanted=False)
    notes.accept(Chosen(1))
    assert notes.take((1,)) == []
    assert notes.fork().peek(0, 1) == []
    notes.rollback(1)
