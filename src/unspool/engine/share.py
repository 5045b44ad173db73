"""One branch's part of a step."""

from __future__ import annotations

from dataclasses import dataclass

from unspool.engine.task import Branch, Task


@dataclass(frozen=True, slots=True)
class Share:
    """The next n_rows tokens of a branch."""

    task: Task
    branch: Branch
    n_rows: int
    is_prompt: bool = False  # or what was read before and has to be read again

    @property
    def wants_logits(self) -> bool:
        """Whether its last row is the last token there is, so that a new one is to be chosen."""
        return self.n_rows == self.branch.n_to_feed

    @property
    def scores_prompt(self) -> bool:
        """Whether each of its rows tells how likely the next token of the prompt is."""
        return self.is_prompt and self.task.scores_prompt

    @property
    def n_logits(self) -> int:
        """How many of its rows, the last ones, logits are needed of."""
        return self.n_rows if self.scores_prompt else int(self.wants_logits)
