"""What comes of an evaluation: numbers with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from unspool.evals.answer_file import AnswerFile, Key
from unspool.evals.task import Answer, Series, Task
from unspool.search.pass_at_k import Interval


@dataclass(frozen=True, slots=True)
class Figure:
    """One number. `interval` says how sure it is, from as many problems as `n_problems`."""

    name: str
    interval: Interval
    n_problems: int
    how: str  # how the interval was worked out
    is_difference: bool = False  # of two other figures, over the same problems

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def answers_of(file: AnswerFile, tasks: Sequence[Task], series: Series, n: int) -> Mapping[str, list[Answer]]:
    """The first n answers to each task, by its name. All must be there."""
    return {task.name: [file[Key(task.name, series, branch)] for branch in range(n)] for task in tasks}
