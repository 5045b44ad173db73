"""The only module that changes tokens, histories and branches; `holding` does it with what they hold.

plant, _plant_answers    branches are born of a request
make_moves               ... of others; they grow and end, as a search says
finish                   all of a request ends, whatever its search says
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from unspool.engine import holding, ranked
from unspool.engine.detokenize import Vocabulary
from unspool.engine.news import event_of, usage_of
from unspool.engine.notes import Notes
from unspool.engine.share import Share
from unspool.engine.storage import Storage
from unspool.engine.strand import Strand
from unspool.engine.task import Branch, Phase, Task
from unspool.engine.transcript import StopRules, Transcript
from unspool.errors import UnspoolError
from unspool.history import History
from unspool.kv.table import PageTable
from unspool.logits.standing import Choice
from unspool.search.base import Advance
from unspool.types import (
    Answer,
    Chosen,
    Complete,
    Drop,
    Event,
    Extend,
    FinishReason,
    Fork,
    TokenLogprobs,
)


def plant(task: Task, storage: Storage, vocabulary: Vocabulary) -> None:
    """Give a new task its first branch: the prompt, with nothing cached and no page held."""
    params, prompt_ids = task.request.params, task.request.prompt_ids
    transcript = Transcript(StopRules.of(params, task.rules), vocabulary, is_followed=task.is_followed)
    history = History(params, task.rules, prompt_ids)
    first = task.first_branches[0]

    def strand(token_ids: Sequence[int]) -> dict[str, Any]:
        return {"token_ids": list(token_ids), "table": PageTable(storage.pool, storage.page_size)}

    task.branches[first] = Branch(
        branch_id=first,
        **strand(prompt_ids),
        transcript=transcript,
        history=history,
        notes=Notes(is_wanted=params.logprobs is not None or params.trace),
        companions=tuple(Strand(**strand(companion.prompt_ids)) for companion in task.companions),
    )


def score(task: Task, logprobs: Sequence[TokenLogprobs]) -> None:
    """More of the prompt has its log-probabilities; they are told with the task's first event."""
    task.prompt_logprobs += logprobs


def make_moves(
    task: Task,
    advance: Advance[Any],
    storage: Storage,
    now: float,
    failed: Mapping[int, UnspoolError] = MappingProxyType({}),
) -> list[Event]:
    """Make a search's moves, in order, and end the branches that failed; the news of every branch that ended,
    or grew and is followed.

    All moves are made or none: a page that cannot be copied for a fork ends the task as it stands.
    """
    try:
        tables = holding.tables_for_forks(task, advance.moves, storage)
    except UnspoolError as problem:
        return finish(task, "error", storage, now, problem)
    if not task.has_output:
        if task.phase is not Phase.DECODE:
            task.move_to(Phase.DECODE)
        task.has_output = True
        task.clock.first_token = now
    task.search_state = advance.state
    task.search_tree.accept(advance.told)
    events: list[Event] = []
    answers: list[tuple[int, float]] = []
    for move in advance.moves:
        branch = task.kept[move.branch] if move.branch in task.kept else task.branches[move.branch]
        if isinstance(move, Extend):
            events += _extend(task, branch, move.tokens, storage, now)
        elif isinstance(move, Fork):
            _fork(task, branch, move.child, tables[move.child])
        elif isinstance(move, Complete):
            task.kept[move.child] = ranked.complete(branch, move, now)
            storage.journal.tokens_decoded += 1
        elif isinstance(move, Drop):
            holding.remove(task, branch, storage)
        elif isinstance(move, Answer):
            events.append(ranked.answer(task, branch, move.score, None, storage, now))
            answers.append((move.branch, move.score))
        else:
            events.append(_end(task, branch, move.reason, storage, now))
    for branch_id, error in failed.items():
        events.append(_end(task, task.branches[branch_id], "error", storage, now, error=error))
    if (
        task.search.is_ranked
        and task.is_followed
        and not task.n_told
        and len(task.branches) + len(task.kept) > 0
    ):
        events += ranked.shared_news(task)
    if not task.branches:
        task.move_to(Phase.DONE)
    return _with_prompt(task, ranked.with_tree(task, events, answers))


def grow(shares: Sequence[Share], choices: Sequence[Choice], storage: Storage, now: float) -> list[Event]:
    """What `holding.record` and `make_moves` come to where each branch, of requests that sample, has fed its
    one token and grows by the one that was chosen."""
    events: list[Event] = []
    n_grown = 0
    for share, (token_id, observed) in zip(shares, choices, strict=True):
        task, branch = share.task, share.branch
        branch.n_cached = n_cached = branch.n_cached + 1
        if n_cached > branch.n_read:
            branch.n_read = n_cached
        is_last = n_cached + 1 - task.n_prompt == task.n_new_max
        told = None if is_last else branch.transcript.tell(token_id)
        if told is not None:
            branch.token_ids.append(token_id)
            branch.history.accept(token_id, observed)
            branch.gaps.accept(now)
            n_grown += 1
            if task.is_followed:
                events.append(Event(task.request_id, told, (token_id,), branch.branch_id))
            continue
        events += _extend(task, branch, (Chosen(token_id, observed),), storage, now)
        if not task.branches:
            task.move_to(Phase.DONE)
    storage.journal.tokens_decoded += n_grown
    return events


def finish(
    task: Task, reason: FinishReason, storage: Storage, now: float, error: UnspoolError | None = None
) -> list[Event]:
    """End a task as it stands, in whatever phase it is."""
    if task.search.is_ranked and task.has_output:
        events = ranked.finish(task, reason, storage, now, error)
        task.move_to(Phase.DONE)
        return _with_prompt(task, events)
    if not task.has_output:
        _plant_answers(task, storage)
    events = [_end(task, branch, reason, storage, now, error=error) for branch in [*task.branches.values()]]
    if task.has_output:
        events = _with_prompt(task, events)
    task.move_to(Phase.DONE)
    return events


def _plant_answers(task: Task, storage: Storage) -> None:
    """A task that ends before its first token has its answers all the same, empty ones."""
    first = task.first_branches[0]
    told = task.branches[first]
    for branch_id in range(first + 1, first + task.search.n_answers):
        table = PageTable(storage.pool, storage.page_size)
        task.branches[branch_id] = Branch(
            branch_id=branch_id,
            token_ids=told.token_ids.copy(),
            table=table,
            transcript=told.transcript.fork(),
            history=told.history.fork(),
            notes=told.notes.fork(),
        )


def _extend(
    task: Task, branch: Branch, tokens: Sequence[Chosen], storage: Storage, now: float
) -> list[Event]:
    for chosen in tokens:
        branch.token_ids.append(chosen.token_id)
        for strand in branch.companions:
            strand.token_ids.append(chosen.token_id)
        branch.history.accept(chosen.token_id, chosen.observed)
        branch.notes.accept(chosen)
        branch.gaps.accept(now)
        storage.journal.tokens_decoded += 1
        ending = branch.transcript.accept(chosen.token_id)
        if ending is not None:
            return [_end(task, branch, ending.reason, storage, now, stop=ending.stop)]
        if len(branch.token_ids) - task.n_prompt == task.n_new_max:
            return [_end(task, branch, "length", storage, now)]
    if task.search.is_ranked or not task.is_followed:
        return []
    news = _news(task, branch)
    return [news] if news.text or news.token_ids else []


def _fork(task: Task, branch: Branch, child_id: int, tables: Sequence[PageTable]) -> None:
    assert child_id not in task.branches, f"branch {child_id} is alive"
    assert len(task.branches) < task.search.max_branches, "more branches than pages were promised for"
    own, *others = tables
    task.branches[child_id] = Branch(
        branch_id=child_id,
        token_ids=branch.token_ids.copy(),
        table=own,
        transcript=branch.transcript.fork(),
        history=branch.history.fork(),
        notes=branch.notes.fork(),
        gaps=branch.gaps.fork(),
        n_cached=branch.n_cached,
        n_read=branch.n_read,
        companions=tuple(strand.fork(table) for strand, table in zip(branch.companions, others, strict=True)),
    )


def _end(
    task: Task,
    branch: Branch,
    reason: FinishReason,
    storage: Storage,
    now: float,
    *,
    stop: str | int | None = None,
    error: UnspoolError | None = None,
) -> Event:
    """Close a branch and report it; its pages are free again."""
    branch.transcript.close()
    news = _news(task, branch)
    holding.remove(task, branch, storage)
    usage = usage_of(task, branch, now)
    storage.journal.ended(task, branch.branch_id, reason, usage, error)
    return news._replace(
        finish_reason=reason,
        stop=stop,
        seed=task.told_seed,
        usage=usage,
        error=error,
    )


def _news(task: Task, branch: Branch) -> Event:
    """What of a branch has become final since it was last told."""
    text, ids = branch.transcript.take()
    return event_of(task, branch.branch_id, text, ids, branch.notes.take(ids))


def _with_prompt(task: Task, events: list[Event]) -> list[Event]:
    """The first event of a task whose prompt was scored tells that too, once."""
    if task.prompt_logprobs and events:
        events[0] = events[0]._replace(prompt_logprobs=tuple(task.prompt_logprobs))
        task.prompt_logprobs = []
    return events
