"""The figures of an evaluation as a table for people, and its problems for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from unspool.cli.text import counted

if TYPE_CHECKING:
    from unspool.cli.eval_run import Answered
    from unspool.evals.figures import Figure
    from unspool.evals.question import Answer

_HEAD: Final = ("FIGURE", "VALUE", "95 % INTERVAL", "PROBLEMS", "INTERVAL BY")


def figure_rows(figures: Sequence[Figure]) -> list[tuple[str, ...]]:
    """A line for each figure below a heading."""
    return [_HEAD, *map(_row, figures)]


def _row(figure: Figure) -> tuple[str, ...]:
    sign = "+" if figure.is_difference else ""
    interval = figure.interval
    return (
        figure.name,
        f"{interval.estimate:{sign}.3f}",
        f"{interval.low:{sign}.3f} to {interval.high:{sign}.3f}",
        str(figure.n_problems),
        figure.how,
    )


def answered_dict(answered: Answered, figures: Sequence[Figure]) -> dict[str, Any]:
    """All that an evaluation says, for programs."""
    return {
        "settings": answered.settings,
        "figures": [figure.to_dict() for figure in figures],
        "problems": _problem_dicts(answered.answers),
        "file": str(answered.path),
    }


def _problem_dicts(answers: Mapping[str, Mapping[str, Sequence[Answer]]]) -> list[dict[str, Any]]:
    """Each problem with what the judge said of each answer, by series; texts are in the file of answers."""
    names = {name: None for by_name in answers.values() for name in by_name}
    return [
        {
            "name": name,
            **{
                series: [
                    {"finish_reason": each.finish_reason, "n_tokens": each.n_tokens, **each.marks}
                    for each in by_name.get(name, ())
                ]
                for series, by_name in answers.items()
            },
        }
        for name in names
    ]


def empty_note(answers: Mapping[str, Mapping[str, Sequence[Answer]]]) -> str | None:
    """What to say where most answers have nothing in them but a fence of a block of code."""
    texts = [each.text for by_name in answers.values() for several in by_name.values() for each in several]
    n_empty = sum(not text.strip("` \t\r\n") for text in texts)
    if 2 * n_empty <= len(texts):
        return None
    return (
        f"{n_empty} of {counted(len(texts), 'answer')} are empty: the model ends at once, and the figures "
        "say nothing else of it"
    )


def summary_line(answers: Mapping[str, Mapping[str, Sequence[Answer]]], path: Path) -> str:
    """How many answers and tokens, how many were cut at their longest, and where they are."""
    every = [each for by_name in answers.values() for several in by_name.values() for each in several]
    n_cut = sum(each.finish_reason == "length" for each in every)
    cut = f" | cut at the longest length: {n_cut}" if n_cut else ""
    n_tokens = sum(each.n_tokens for each in every)
    return f"{counted(len(every), 'answer')} | {counted(n_tokens, 'token')}{cut} | {path}"
