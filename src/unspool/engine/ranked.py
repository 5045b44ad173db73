"""The answers of a search that ranks them: told at the end, but for what all of them have in common.

The part of `commit` for these searches: nothing else calls it. A hypothesis keeps its whole text back until
it is an answer. While the search goes on, the beginning that all live and ended hypotheses share is told as
the best answer's, since whichever wins begins like that; so nothing is ever taken back.

    best answer   [0, told.n_bytes) told while it was not known which it is | the rest with its last event
"""

from __future__ import annotations

from collections.abc import Sequence

from unspool.engine import holding
from unspool.engine.news import event_of, usage_of
from unspool.engine.storage import Storage
from unspool.engine.task import Branch, Task
from unspool.errors import UnspoolError
from unspool.types import Complete, Event, FinishReason


def complete(branch: Branch, move: Complete, now: float) -> Branch:
    """The branch and one more token, which ends its text; it has no pages and will not grow."""
    child = Branch(
        branch_id=move.child,
        token_ids=[*branch.token_ids, move.token.token_id],
        table=branch.table.empty(),
        transcript=branch.transcript.fork(),
        history=branch.history.fork(),
        notes=branch.notes.fork(),
        gaps=branch.gaps.fork(),
    )
    child.notes.accept(move.token)
    child.gaps.accept(now)
    child.ending = child.transcript.accept(move.token.token_id)
    child.transcript.close()
    return child


def shared_news(task: Task) -> list[Event]:
    """What has become common to every hypothesis, as the best answer's."""
    hypotheses = [*task.branches.values(), *task.kept.values()]
    first, told = hypotheses[0].transcript, task.told
    n_tokens = told.n_tokens
    n_bytes_most = min(hypothesis.transcript.n_bytes_final for hypothesis in hypotheses)
    n_most = min(len(hypothesis.transcript.token_ids) for hypothesis in hypotheses)
    while n_tokens < n_most:
        token_id = first.token_ids[n_tokens]
        if first.end_of(n_tokens) > n_bytes_most or any(
            hypothesis.transcript.token_ids[n_tokens] != token_id for hypothesis in hypotheses
        ):
            break
        n_tokens += 1
    if n_tokens == told.n_tokens:
        return []
    n_bytes = first.end_of(n_tokens - 1)
    text = told.detokenizer.accept(first.bytes_of(told.n_bytes, n_bytes))
    chosen = hypotheses[0].notes.peek(told.n_tokens, n_tokens)
    news = event_of(task, 0, text, first.token_ids[told.n_tokens : n_tokens], chosen)
    told.n_tokens, told.n_bytes = n_tokens, n_bytes
    return [news]


def answer(
    task: Task,
    branch: Branch,
    value: float,
    reason: FinishReason | None,
    storage: Storage,
    now: float,
    error: UnspoolError | None = None,
) -> Event:
    """Tell a hypothesis as the next best answer; `reason` is why the search ends before its own end."""
    news = _last_news(task, branch, task.n_told)
    ending = branch.ending
    if branch.branch_id in task.kept:
        reason = "length" if ending is None else ending.reason
    assert reason is not None, "a live branch is no answer while the search goes on"
    usage = usage_of(task, branch, now)
    holding.remove(task, branch, storage)
    storage.journal.ended(task, task.n_told, reason, usage, error)
    task.n_told += 1
    return news._replace(
        finish_reason=reason,
        stop=None if ending is None else ending.stop,
        seed=task.told_seed,
        usage=usage,
        error=error,
        score=value,
    )


def finish(
    task: Task, reason: FinishReason, storage: Storage, now: float, error: UnspoolError | None
) -> list[Event]:
    """A ranked search that has to end tells what stands best; those that had ended keep their own reasons."""
    events = []
    answers = task.search.standing(task.search_state)
    for branch_id, value in answers:
        branch = task.kept[branch_id] if branch_id in task.kept else task.branches[branch_id]
        events.append(answer(task, branch, value, reason, storage, now, error))
    for branch in [*task.branches.values(), *task.kept.values()]:
        holding.remove(task, branch, storage)
    return with_tree(task, events, answers)


def _last_news(task: Task, branch: Branch, rank: int) -> Event:
    """The text of an answer, without what was told of the best one before."""
    branch.transcript.close()
    transcript = branch.transcript
    n_tokens, n_bytes, detokenizer = 0, 0, None
    if rank == 0:
        n_tokens, n_bytes, detokenizer = task.told.n_tokens, task.told.n_bytes, task.told.detokenizer
    data = transcript.bytes_of(n_bytes, transcript.n_bytes_final)
    text = data.decode(errors="replace") if detokenizer is None else detokenizer.accept(data, final=True)
    ids = transcript.token_ids
    return event_of(task, rank, text, ids[n_tokens:], branch.notes.peek(n_tokens, len(ids)))


def with_tree(task: Task, events: list[Event], answers: Sequence[tuple[int, float]]) -> list[Event]:
    """The events that tell all answers, (branch, score) each: the best one's has what the search did."""
    if answers and (tree := task.search_tree.whole(answers)) is not None:
        last = next(i for i, event in enumerate(events) if event.finish_reason is not None)
        events[last] = events[last]._replace(search_tree=tree)
    return events
