"""What the stages share that learn from each chosen token: mirostat and adaptive-p.

Each has one number that runs along the text, mu or an average, and changes it by what the chosen token was
to it. The number belongs to the branch (`history.running`); a stage reads it and says what it observed, and
the token carries that to where the branch takes it in.
"""

from __future__ import annotations

from typing import Protocol

from unspool.history.running import starting_value
from unspool.logits.stage import Logits, Stage
from unspool.types import Row


class Observer(Stage, Protocol):
    """A stage that learns."""

    def observe(self, before: Logits, after: Logits, row: Row, token_id: int) -> float:
        """What the choice of a token was, given the row's logits (V,) around this stage: Chosen.observed."""
        ...


def value_in_force(row: Row) -> float:
    """mu or the average at a row's position; without a history it is where the text begins."""
    if row.history is not None and row.history.running is not None:
        return row.history.running.value
    start = starting_value(row.params)
    assert start is not None, "a stage that is active has a value"
    return start
