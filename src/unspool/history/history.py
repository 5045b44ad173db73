"""A branch's text in the form that the stages ask about it, kept up to date."""

from __future__ import annotations

from collections.abc import Sequence

from unspool.history.running import Running
from unspool.params import DecodingParams
from unspool.rules import Rules


class History:
    """`accept` moves forward, `rollback` undoes, `fork` copies. Starts after the prompt.

    Costs per token do not grow with the text. What it says is what the stages work out from
    `Row.token_ids` when a row has no history, which is its slow twin.
    """

    def __init__(self, params: DecodingParams, rules: Rules, prompt_ids: Sequence[int]) -> None:
        self.running = Running.of(params)

    def accept(self, token_id: int, observed: float | None = None) -> None:
        """The text grows by a token. `observed` is Chosen.observed: the token's surprise in bits before
        mirostat's cut, or its probability before adaptive-p; None when nothing runs."""
        if self.running is not None:
            self.running.accept(observed)

    def rollback(self, n: int) -> None:
        """Undo the last n accepted tokens."""
        if self.running is not None:
            self.running.rollback(n)

    def fork(self) -> History:
        copy = History.__new__(History)
        copy.running = None if self.running is None else self.running.fork()
        return copy
