"""The only module that changes pages, token histories and branches."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

from unspool.engine import ranked
from unspool.engine.detokenize import Vocabulary
from unspool.engine.news import event_of, usage_of
from unspool.engine.share import Share
from unspool.engine.storage import Storage
from unspool.engine.task import Branch, Phase, Task
from unspool.engine.transcript import StopRules, Transcript
from unspool.errors import UnspoolError
from unspool.history import History
from unspool.kv.prefix_tree import Match
from unspool.kv.table import PageTable
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
    transcript = Transcript(StopRules.of(params, task.rules), vocabulary)
    history = History(params, task.rules, prompt_ids)
    table = PageTable(storage.pool, storage.page_size)
    first = task.first_branches[0]
    task.branches[first] = Branch(first, list(prompt_ids), table, transcript, history)


def adopt(task: Task, branch: Branch, match: Match, storage: Storage, n_spare: int) -> int:
    """Give a branch the pages of a match, as far as they take no more than n_spare pages from others.
    Returns how many they take."""
    n_available = storage.pool.n_available
    n_cached, copy = branch.table.adopt(_affordable(match, storage, n_spare))
    if copy is not None:
        try:
            storage.runner.copy_page(*copy)
        except BaseException:
            branch.table.release()  # or the next try would take what is in the page for a copy
            raise
    branch.n_cached = n_cached
    if branch.n_read == 0:
        task.n_prompt_cached = branch.n_cached
    branch.n_read = max(branch.n_read, branch.n_cached)
    storage.journal.tokens_found += branch.n_cached
    return n_available - storage.pool.n_available


def _affordable(match: Match, storage: Storage, n_spare: int) -> Match:
    """The longest part of a match that takes at most n_spare pages from others."""
    n_taken = 0
    for i, page in enumerate(match.pages):
        n_taken += storage.pool.holders(page) == 0
        if n_taken > n_spare:
            return Match(match.pages[:i], None, i * storage.page_size)
    if match.partial_page is not None and n_taken == n_spare:
        return Match(match.pages, None, len(match.pages) * storage.page_size)
    return match


def restore(
    token_ids: Sequence[int], storage: Storage, salt: Hashable, fill: Callable[[list[int], int], None]
) -> None:
    """Take pages for a whole text, have them filled, and leave them to the prefix tree.

    `fill(pages, n_known)` writes pages[n_known:]; the tree has the others already. Whatever it raises,
    nothing of this text stays behind.
    """
    table = PageTable(storage.pool, storage.page_size)
    match = storage.tree.match(token_ids, len(token_ids), salt)
    try:
        table.adopt(Match(match.pages, None, len(match.pages) * storage.page_size))
        table.grow(len(token_ids))
        fill(table.pages.tolist(), len(match.pages))
        storage.tree.insert(token_ids, len(token_ids), table.pages.tolist(), salt)
    finally:
        table.release()


def resume(task: Task) -> None:
    """A task that was put back decodes again when all its branches have but one token to feed."""
    is_resuming = task.phase is Phase.PREFILL and task.has_output
    if is_resuming and all(branch.n_to_feed == 1 for branch in task.branches.values()):
        task.move_to(Phase.DECODE)


def preempt(task: Task, storage: Storage) -> None:
    """Put a task back for want of pages."""
    n_dropped = sum(branch.n_cached for branch in task.branches.values())
    put_back(task, storage)
    task.n_preempted += 1
    storage.journal.preempted(task, n_dropped)


def put_back(task: Task, storage: Storage) -> None:
    """Take a task's pages from it; it may find them again in the prefix tree."""
    for branch in task.branches.values():
        _leave(task, branch, storage)
        branch.n_cached = 0
    if not task.has_output:
        task.prompt_logprobs = []
    task.move_to(Phase.WAITING)


def reserve(shares: Sequence[Share], storage: Storage) -> None:
    """Before the forward pass: pages for all its rows."""
    now = storage.journal.clock()
    for share in shares:
        share.branch.table.grow(share.branch.n_cached + share.n_rows)
        if share.task.clock.started is None:
            share.task.clock.started = now
            storage.journal.started(share.task, now)


def record(shares: Sequence[Share], storage: Storage) -> None:
    """After the forward pass: its rows are in the cache, and whole pages of prompts in the prefix tree."""
    for share in shares:
        task, branch = share.task, share.branch
        branch.n_cached += share.n_rows
        if share.is_prompt:
            n_new = min(max(branch.n_cached - branch.n_read, 0), share.n_rows)
            task.n_reread += share.n_rows - n_new
            storage.journal.tokens_read += n_new
            storage.journal.tokens_reread += share.n_rows - n_new
            n_whole = branch.n_cached - branch.n_cached % storage.page_size
            branch.in_tree, others = storage.tree.insert(
                branch.token_ids, n_whole, branch.table.pages.tolist(), task.salt, branch.in_tree
            )
            for index, page in others:  # read twice at once: promise 1 makes the pages equal
                branch.table.replace(index, page)
        branch.n_read = max(branch.n_read, branch.n_cached)
        resume(task)


def score(task: Task, logprobs: Sequence[TokenLogprobs]) -> None:
    """More of the prompt has its log-probabilities; they are told with the task's first event."""
    task.prompt_logprobs += logprobs


def make_moves(task: Task, advance: Advance[Any], storage: Storage, now: float) -> list[Event]:
    """Make a search's moves, in order; the news of every branch that grew or ended."""
    if not task.has_output:
        task.move_to(Phase.DECODE)
        task.has_output = True
        task.clock.first_token = now
    task.search_state = advance.state
    events: list[Event] = []
    for move in advance.moves:
        branch = task.kept[move.branch] if move.branch in task.kept else task.branches[move.branch]
        if isinstance(move, Extend):
            events += _extend(task, branch, move.tokens, storage, now)
        elif isinstance(move, Fork):
            _fork(task, branch, move.child, storage)
        elif isinstance(move, Complete):
            task.kept[move.child] = ranked.complete(branch, move, now)
            storage.journal.tokens_decoded += 1
        elif isinstance(move, Drop):
            _remove(task, branch, storage)
        elif isinstance(move, Answer):
            events.append(_answer(task, branch, move.score, None, storage, now))
        else:
            events.append(_end(task, branch, move.reason, storage, now))
    if task.search.is_ranked and not task.n_told and len(task.branches) + len(task.kept) > 0:
        events += ranked.shared_news(task)
    if not task.branches:
        task.move_to(Phase.DONE)
    return _with_prompt(task, events)


def finish(
    task: Task, reason: FinishReason, storage: Storage, now: float, error: UnspoolError | None = None
) -> list[Event]:
    """End a task as it stands, in whatever phase it is."""
    if task.search.is_ranked and task.has_output:
        return _finish_ranked(task, reason, storage, now, error)
    if not task.has_output:
        _plant_answers(task, storage)
    events = [_end(task, branch, reason, storage, now, error=error) for branch in [*task.branches.values()]]
    if task.has_output:
        events = _with_prompt(task, events)
    task.move_to(Phase.DONE)
    return events


def _finish_ranked(
    task: Task, reason: FinishReason, storage: Storage, now: float, error: UnspoolError | None
) -> list[Event]:
    """A ranked search that has to end tells what stands best; those that had ended keep their own reasons."""
    events = []
    for branch_id, value in task.search.standing(task.search_state):
        branch = task.kept[branch_id] if branch_id in task.kept else task.branches[branch_id]
        events.append(_answer(task, branch, value, reason, storage, now, error))
    for branch in [*task.branches.values(), *task.kept.values()]:
        _remove(task, branch, storage)
    task.move_to(Phase.DONE)
    return _with_prompt(task, events)


def _answer(
    task: Task,
    branch: Branch,
    value: float,
    reason: FinishReason | None,
    storage: Storage,
    now: float,
    error: UnspoolError | None = None,
) -> Event:
    """Tell a hypothesis as the next best answer; `reason` is why the search ends before its own end."""
    news = ranked.last_news(task, branch, task.n_told)
    ending = branch.ending
    if branch.branch_id in task.kept:
        reason = "length" if ending is None else ending.reason
    assert reason is not None, "a live branch is no answer while the search goes on"
    usage = usage_of(task, branch, now)
    _remove(task, branch, storage)
    storage.journal.ended(task, task.n_told, reason, usage, error)
    task.n_told += 1
    return replace(
        news,
        finish_reason=reason,
        stop=None if ending is None else ending.stop,
        seed=task.seed if task.search.draws and not task.request.params.is_greedy else None,
        usage=usage,
        error=error,
        score=value,
    )


def _plant_answers(task: Task, storage: Storage) -> None:
    """A task that ends before its first token has its answers all the same, empty ones."""
    first = task.first_branches[0]
    told = task.branches[first]
    for branch_id in range(first + 1, first + task.search.n_answers):
        table = PageTable(storage.pool, storage.page_size)
        task.branches[branch_id] = Branch(
            branch_id, told.token_ids.copy(), table, told.transcript.fork(), told.history.fork()
        )


def _extend(
    task: Task, branch: Branch, tokens: Sequence[Chosen], storage: Storage, now: float
) -> list[Event]:
    for chosen in tokens:
        branch.token_ids.append(chosen.token_id)
        branch.history.accept(chosen.token_id, chosen.observed)
        branch.notes.accept(chosen)
        branch.gaps.accept(now)
        storage.journal.tokens_decoded += 1
        ending = branch.transcript.accept(chosen.token_id)
        if ending is not None:
            return [_end(task, branch, ending.reason, storage, now, stop=ending.stop)]
        if len(branch.token_ids) - task.n_prompt == task.n_new_max:
            return [_end(task, branch, "length", storage, now)]
    if task.search.is_ranked:
        return []
    news = _news(task, branch)
    return [news] if news.text or news.token_ids else []


def _fork(task: Task, branch: Branch, child_id: int, storage: Storage) -> None:
    assert child_id not in task.branches, f"branch {child_id} is alive"
    assert len(task.branches) < task.search.max_branches, "more branches than pages were promised for"
    table, copy = branch.table.fork(branch.n_cached)
    if copy is not None:
        storage.runner.copy_page(*copy)
    task.branches[child_id] = Branch(
        child_id,
        branch.token_ids.copy(),
        table,
        branch.transcript.fork(),
        branch.history.fork(),
        branch.notes.fork(),
        branch.gaps.fork(),
        branch.n_cached,
        branch.n_read,
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
    _remove(task, branch, storage)
    usage = usage_of(task, branch, now)
    storage.journal.ended(task, branch.branch_id, reason, usage, error)
    return replace(
        news,
        finish_reason=reason,
        stop=stop,
        seed=None if task.request.params.is_greedy else task.seed,
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
        events[0] = replace(events[0], prompt_logprobs=tuple(task.prompt_logprobs))
        task.prompt_logprobs = []
    return events


def _remove(task: Task, branch: Branch, storage: Storage) -> None:
    if task.kept.pop(branch.branch_id, None) is None:
        del task.branches[branch.branch_id]
        _leave(task, branch, storage)
    if not task.branches and task.is_private:
        storage.tree.forget(task.salt)


def _leave(task: Task, branch: Branch, storage: Storage) -> None:
    """Give up a branch's pages; the prefix tree keeps them for who has the same text."""
    pages = branch.table.pages.tolist()
    storage.tree.insert(branch.token_ids, branch.n_cached, pages, task.salt, branch.in_tree)
    branch.table.release()
    branch.in_tree = None
