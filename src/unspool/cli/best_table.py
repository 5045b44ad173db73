"""A best-of-n report as a table for people and as one object for programs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from unspool.cli.names import as_typed
from unspool.cli.text import counted

if TYPE_CHECKING:
    from unspool.best import BestReport, Judged

_HEAD: Final = ("RANK", "ANSWER", "SCORE", "ACCEPTED", "TOKENS", "RESULT", "DETAIL")
_YES_NO: Final = {True: "yes", False: "no", None: ""}
_MAX_CHARACTERS: Final = 60
_ENDS: Final = {
    "complete": "all answers ended",
    "decided": "stopped early: the verifier had enough",
    "budget": "stopped: the budget was spent",
    "cancelled": "interrupted",
}


def ranking_rows(report: BestReport) -> list[tuple[str, ...]]:
    """A line an answer, the best first; columns that would be empty are left out. ANSWER counts from 1."""
    lines = [_HEAD, *(_line(rank, each) for rank, each in enumerate(report.answers, start=1))]
    kept = [i for i in range(len(_HEAD)) if any(line[i] for line in lines[1:])]
    return [tuple(line[i] for i in kept) for line in lines]


def vote_rows(report: BestReport) -> list[tuple[str, ...]]:
    """A line for each result that was voted for."""
    rows = [(_short(vote.answer), str(vote.n), f"{vote.weight:.4g}") for vote in report.votes]
    return [("RESULT", "VOTES", "WEIGHT"), *rows] if rows else []


def tie_line(report: BestReport) -> str:
    """What was as good as the best, and why that was taken; empty where nothing was."""
    if votes := report.tied_votes:
        first = votes[0]
        each = counted(first.n, "vote") if first.weight == first.n else f"a weight of {first.weight:.4g}"
        results = _listed([_short(vote.answer) for vote in votes])
        return f"tie: {results} have {each} each; {_short(first.answer)} was chosen, which came first"
    if not report.tied:
        return ""
    answers = _listed([str(branch + 1) for branch in report.tied])
    return f"tie: answers {answers} were judged alike; {report.tied[0] + 1} was chosen, which came first"


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def summary_line(report: BestReport) -> str:
    n_judged = sum(each.verdict is not None for each in report.answers)
    parts = [f"judged: {n_judged} of {counted(len(report.answers), 'answer')}"]
    if any(each.verdict is not None and each.verdict.accepted is not None for each in report.answers):
        parts.append(f"accepted: {report.n_accepted}")
    parts += [_tokens(report), f"end: {_ENDS[report.ended]}"]
    if report.seed is not None:
        parts.append(f"seed: {report.seed}")
    return " | ".join(parts)


def _tokens(report: BestReport) -> str:
    """As many as the rows have, and as many as a budget counts where these are more."""
    n_shown = sum(len(each.token_ids) for each in report.answers)
    if n_shown == report.n_tokens:
        return counted(n_shown, "token")
    return f"{counted(n_shown, 'token')}, {report.n_tokens} with those that end answers"


def report_dict(report: BestReport) -> dict[str, Any]:
    return {
        "text": str(report),
        "answers": [_answer_dict(rank, each) for rank, each in enumerate(report.answers, start=1)],
        "votes": [{"answer": vote.answer, "n": vote.n, "weight": vote.weight} for vote in report.votes],
        "tied_votes": [vote.answer for vote in report.tied_votes],
        "tied": list(report.tied),
        "n_accepted": report.n_accepted,
        "n_tokens": report.n_tokens,
        "ended": report.ended,
        "seed": report.seed,
    }


def _answer_dict(rank: int, each: Judged) -> dict[str, Any]:
    told: dict[str, Any] = {
        "rank": None if each.verdict is None else rank,
        "branch": each.branch,
        "text": each.text,
        "token_ids": list(each.token_ids),
        "finish_reason": None if each.completion is None else each.completion.finish_reason,
        "verdict": None,
        "problem": _problem(each),
    }
    if (verdict := each.verdict) is not None:
        told["verdict"] = {
            "score": verdict.score if math.isfinite(verdict.score) else None,
            "accepted": verdict.accepted,
            "answer": verdict.answer,
            "detail": verdict.detail,
        }
    return told


def _line(rank: int, each: Judged) -> tuple[str, ...]:
    number, n_tokens = str(each.branch + 1), str(len(each.token_ids))
    if (verdict := each.verdict) is None:
        return ("-", number, "", "", n_tokens, "", _short(_problem(each)))
    score = f"{verdict.score:.4g}"
    result = "" if verdict.answer is None else _short(verdict.answer)
    return (str(rank), number, score, _YES_NO[verdict.accepted], n_tokens, result, _short(verdict.detail))


def _problem(each: Judged) -> str:
    """Why nobody judged it."""
    return each.problem if each.error is None else as_typed(each.error)


def _short(text: str) -> str:
    """One line of printable characters."""
    line = " ".join(text.split())
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    return line if len(line) <= _MAX_CHARACTERS else f"{line[: _MAX_CHARACTERS - 3]}..."
