"""What comes of an evaluation: numbers with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from unspool.evals.answer_file import AnswerFile, Key
from unspool.evals.question import Answer, Question, Series
from unspool.light_dataclass import dataclass
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


def answers_of(
    file: AnswerFile, questions: Sequence[Question], series: Series, n: int
) -> Mapping[str, list[Answer]]:
    """The first n answers to each question, by its name. All must be there."""
    return {
        question.name: [file[Key(question.name, series, branch)] for branch in range(n)]
        for question in questions
    }


def answers_so_far(
    file: AnswerFile, questions: Sequence[Question], series: Series, n: int
) -> Mapping[str, list[Answer]]:
    """Those of the first n answers to each question that are there."""
    keys = {q.name: [Key(q.name, series, branch) for branch in range(n)] for q in questions}
    return {name: [file[key] for key in wanted if key in file] for name, wanted in keys.items()}
