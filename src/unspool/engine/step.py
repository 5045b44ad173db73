"""One engine step, from the rows that run to the news they make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from typing import Any, NamedTuple

import numpy as np

from unspool.engine import commit, holding
from unspool.engine.annotate import annotate, score_prompt, wants_notes
from unspool.engine.detokenize import Vocabulary
from unspool.engine.forward import forward
from unspool.engine.search_trace import spelled
from unspool.engine.share import Share
from unspool.engine.storage import Storage
from unspool.engine.task import Task
from unspool.errors import UnspoolError
from unspool.logits import pipeline
from unspool.logits.combination import combined
from unspool.logits.pipeline import Passed
from unspool.search.base import Advance
from unspool.types import F32, Event, Processed, Row, TokenLogprobs


def run_step(
    shares: Sequence[Share],
    storage: Storage,
    vocabulary: Vocabulary,
    n_vocab: int,
) -> list[Event]:
    """plan, forward, combine, apply, advance, commit.

    Before commit the only change is that pages are held for the rows, and their values in the cache are
    those a second try would write again: whatever is raised by then, the step can be run once more.

    `n_vocab` is how many tokens have a meaning: an output layer may be padded beyond the tokenizer's
    vocabulary, and the logits of the padding are not looked at.
    """
    holding.reserve(shares, storage)
    storage.journal.lap()
    logits = forward(shares, storage, n_vocab)  # (W, V) f32, the last `n_logits` rows of each share in turn
    storage.journal.lap()
    asking = [share for share in shares if share.wants_logits and share.companion is None]
    rows_of = [share.task.rows(share.branch) for share in asking]
    rows = [row for its_rows in rows_of for row in its_rows]
    scored: list[tuple[Task, list[TokenLogprobs]]] = []
    before: list[tuple[Passed, ...]] = [()] * len(rows)  # what was done to each row before the pipeline
    if not len(logits) == len(asking) == len(rows):
        # Only the last row of a scored prompt is one that a token is chosen for, the last of a prompt with
        # several answers is one for each of them, and those of companions are combined with their branch's.
        ends = list(accumulate(share.n_logits for share in shares))  # of each share's part in W
        scored = [
            (share.task, score_prompt(share, logits[end - share.n_logits : end], vocabulary))
            for share, end in zip(shares, ends, strict=True)
            if share.scores_prompt
        ]
        lasts = {
            (share.task.request_id, share.branch.branch_id, share.companion): end - 1
            for share, end in zip(shares, ends, strict=True)
            if share.wants_logits
        }
        said, own = logits, [lasts[share.task.request_id, share.branch.branch_id, None] for share in asking]
        logits = said[np.repeat(np.array(own, dtype=np.intp), [len(its_rows) for its_rows in rows_of])]
        _combine(asking, rows_of, said, lasts, logits, before)
    processed = pipeline.process(logits, rows, storage.runner.sampler)
    decisions = [
        (group, _advance(group, logits, before, vocabulary)) for group in _by_task(asking, rows_of, processed)
    ]

    now = storage.journal.lap()
    holding.record(shares, storage)
    for task, logprobs in scored:
        commit.score(task, logprobs)
    events: list[Event] = []
    for group, decided in decisions:
        if isinstance(decided, UnspoolError):
            events += commit.finish(group.task, "error", storage, now, decided)
        else:
            events += commit.make_moves(group.task, decided, storage, now, group.failed)
    return events


class _Group(NamedTuple):
    """A task with the rows of its branches."""

    task: Task
    rows: Sequence[Row]
    first: int  # of its rows in the logits
    processed: Sequence[Processed | UnspoolError]

    @property
    def failed(self) -> dict[int, UnspoolError]:
        """What is wrong with the rows of which branches."""
        made = zip(self.rows, self.processed, strict=True)
        return {row.branch: error for row, error in made if isinstance(error, UnspoolError)}


def _combine(
    asking: Sequence[Share],
    rows_of: Sequence[Sequence[Row]],
    said: F32,
    lasts: Mapping[tuple[int, int, int | None], int],
    logits: F32,
    before: list[tuple[Passed, ...]],
) -> None:
    """Put what the rules of companions make of it in place of a branch's own logits (R, V). `lasts` are the
    rows of `said` (W, V) by request, branch and companion."""
    first = 0
    for share, its_rows in zip(asking, rows_of, strict=True):
        end = first + len(its_rows)
        if companions := share.task.companions:
            request_id, branch_id = share.task.request_id, share.branch.branch_id
            others = [said[lasts[request_id, branch_id, i]] for i in range(len(companions))]
            rules = [companion.rule for companion in companions]
            logits[first:end], passed = combined(logits[first], others, rules, its_rows[0])
            before[first:end] = [passed] * len(its_rows)
        first = end


def _advance(
    group: _Group, logits: F32, before: Sequence[Sequence[Passed]], vocabulary: Vocabulary
) -> Advance[Any] | UnspoolError:
    """The moves of a task's search, or what is wrong with this request alone: the others go on. Of answers
    that are sampled side by side, those whose rows are sound go on too."""
    task, rows = group.task, group.rows
    if failed := group.failed:
        if task.request.search is not None or not task.has_output:
            return next(iter(failed.values()))
        if len(failed) == len(rows):
            return Advance(task.search_state, ())
    at = [i for i, row in enumerate(rows) if row.branch not in failed]
    rows = [rows[i] for i in at]
    sound = [p for p in group.processed if isinstance(p, Processed)]
    try:
        state = task.search_state if task.has_output else task.search.start()
        advance = task.search.advance(state, rows, sound)
    except UnspoolError as error:
        return error
    if not wants_notes(task):
        return advance
    own = [group.first + i for i in at]
    done = [before[i] for i in own]
    moves = annotate(task, rows, logits[own], sound, advance.moves, vocabulary, done)
    return Advance(advance.state, moves, spelled(advance.told, vocabulary))


def _by_task(
    asking: Sequence[Share], rows_of: Sequence[Sequence[Row]], processed: Sequence[Processed | UnspoolError]
) -> Iterator[_Group]:
    """The scheduler keeps a task's branches side by side."""
    first = 0
    for _, group in groupby(zip(asking, rows_of, strict=True), key=lambda item: item[0].task.request_id):
        shares, its_rows = zip(*group, strict=True)
        rows = [row for rows in its_rows for row in rows]
        yield _Group(shares[0].task, rows, first, processed[first : first + len(rows)])
        first += len(rows)
