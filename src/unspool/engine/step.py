"""One engine step, from the rows that run to the news they make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from time import perf_counter

from unspool.engine import commit
from unspool.engine.plan import build_plan
from unspool.engine.scheduler import Share
from unspool.engine.task import Task
from unspool.errors import UnspoolError
from unspool.logits import pipeline
from unspool.runners.base import Runner
from unspool.types import F32, Event, Move, Row


def run_step(shares: Sequence[Share], runner: Runner, n_vocab: int) -> list[Event]:
    """plan, forward, apply, advance, commit.

    Before commit the only change is that pages are held for the rows, and their values in the cache are
    those a second try would write again: whatever is raised by then, the step can be run once more.

    `n_vocab` is how many tokens have a meaning: an output layer may be padded beyond the tokenizer's
    vocabulary, and the logits of the padding are not looked at.
    """
    commit.reserve(shares, perf_counter())
    plan = build_plan(shares)
    logits = runner.forward(plan)  # (W, V) f32, a row for each of `asking`
    asking = [share for share in shares if share.wants_logits]
    rows = [share.task.row(share.branch) for share in asking]
    survivors = pipeline.apply(logits[:, :n_vocab], rows)
    decisions = [
        (task, _advance(task, its_rows, its_logits))
        for task, its_rows, its_logits in _by_task(asking, rows, survivors)
    ]

    now = perf_counter()
    commit.record(shares)
    events: list[Event] = []
    for task, decided in decisions:
        if isinstance(decided, UnspoolError):
            events += commit.finish(task, "error", now, decided)
        else:
            events += commit.make_moves(task, decided, runner, now)
    return events


def _advance(task: Task, rows: Sequence[Row], logits: Sequence[F32]) -> tuple[Move, ...] | UnspoolError:
    """The moves of a task's search, or what is wrong with this request alone: the others go on."""
    try:
        return task.search.advance(rows, logits)
    except UnspoolError as error:
        return error


def _by_task(
    asking: Sequence[Share], rows: Sequence[Row], logits: Sequence[F32]
) -> Iterator[tuple[Task, list[Row], list[F32]]]:
    """Each task with the rows and logits of its branches, which the scheduler keeps side by side."""
    for _, group in groupby(zip(asking, rows, logits, strict=True), key=lambda item: item[0].task.request_id):
        shares, its_rows, its_logits = zip(*group, strict=True)
        yield shares[0].task, list(its_rows), list(its_logits)
