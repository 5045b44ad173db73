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
from unspool.types import Event, Move, Processed, Row


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
    processed = pipeline.process(logits[:, :n_vocab], rows)
    decisions = [
        (task, _advance(task, its_rows, its_processed))
        for task, its_rows, its_processed in _by_task(asking, rows, processed)
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


def _advance(
    task: Task, rows: Sequence[Row], processed: Sequence[Processed | UnspoolError]
) -> tuple[Move, ...] | UnspoolError:
    """The moves of a task's search, or what is wrong with this request alone: the others go on."""
    sound = [p for p in processed if isinstance(p, Processed)]
    if len(sound) < len(processed):
        return next(p for p in processed if isinstance(p, UnspoolError))
    try:
        return task.search.advance(rows, sound)
    except UnspoolError as error:
        return error


def _by_task(
    asking: Sequence[Share], rows: Sequence[Row], processed: Sequence[Processed | UnspoolError]
) -> Iterator[tuple[Task, list[Row], list[Processed | UnspoolError]]]:
    """Each task with the rows of its branches, which the scheduler keeps side by side."""
    together = zip(asking, rows, processed, strict=True)
    for _, group in groupby(together, key=lambda item: item[0].task.request_id):
        shares, its_rows, its_processed = zip(*group, strict=True)
        yield shares[0].task, list(its_rows), list(its_processed)
