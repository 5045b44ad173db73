"""The only module that changes pages, token histories and branches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unspool.engine.detokenize import Vocabulary
from unspool.engine.scheduler import Share
from unspool.engine.task import Branch, Phase, Task
from unspool.engine.transcript import StopRules, Transcript
from unspool.errors import UnspoolError
from unspool.history import History
from unspool.kv.pool import PagePool
from unspool.kv.table import PageTable
from unspool.runners.base import Runner
from unspool.types import Chosen, Drop, Event, Extend, FinishReason, Fork, Move, TokenLogprobs, Usage


def plant(task: Task, pool: PagePool, page_size: int, vocabulary: Vocabulary) -> None:
    """Give a new task its first branch: the prompt, with nothing cached and no page held."""
    params, prompt_ids = task.request.params, task.request.prompt_ids
    transcript = Transcript(StopRules.of(params, task.rules), vocabulary)
    history = History(params, task.rules, prompt_ids)
    task.branches[0] = Branch(0, list(prompt_ids), PageTable(pool, page_size), transcript, history)


def reserve(shares: Sequence[Share], now: float) -> None:
    """Before the forward pass: pages for all its rows."""
    for share in shares:
        share.branch.table.grow(share.branch.n_cached + share.n_rows)
        if share.task.clock.started is None:
            share.task.clock.started = now


def record(shares: Sequence[Share]) -> None:
    """After the forward pass: its rows are in the cache."""
    for share in shares:
        share.branch.n_cached += share.n_rows


def score(task: Task, logprobs: Sequence[TokenLogprobs]) -> None:
    """More of the prompt has its log-probabilities; they are told with the task's first event."""
    task.prompt_logprobs += logprobs


def make_moves(task: Task, moves: Sequence[Move], runner: Runner, now: float) -> list[Event]:
    """Make a search's moves, in order; the news of every branch that grew or ended."""
    if task.phase is Phase.PREFILL:
        task.move_to(Phase.DECODE)
        task.clock.first_token = now
    events: list[Event] = []
    for move in moves:
        branch = task.branches[move.branch]
        if isinstance(move, Extend):
            events += _extend(task, branch, move.tokens, now)
        elif isinstance(move, Fork):
            _fork(task, branch, move.child, runner)
        elif isinstance(move, Drop):
            _remove(task, branch)
        else:
            events.append(_end(task, branch, move.reason, now))
    if not task.branches:
        task.move_to(Phase.DONE)
    return _with_prompt(task, events)


def finish(task: Task, reason: FinishReason, now: float, error: UnspoolError | None = None) -> list[Event]:
    """End a task as it stands, in whatever phase it is."""
    events = [_end(task, branch, reason, now, error=error) for branch in list(task.branches.values())]
    if task.phase is Phase.DECODE:
        events = _with_prompt(task, events)
    task.move_to(Phase.DONE)
    return events


def _extend(task: Task, branch: Branch, tokens: Sequence[Chosen], now: float) -> list[Event]:
    for chosen in tokens:
        branch.token_ids.append(chosen.token_id)
        branch.history.accept(chosen.token_id, chosen.observed)
        branch.notes.accept(chosen)
        ending = branch.transcript.accept(chosen.token_id)
        if ending is not None:
            return [_end(task, branch, ending.reason, now, stop=ending.stop)]
        if len(branch.token_ids) - task.n_prompt == task.n_new_max:
            return [_end(task, branch, "length", now)]
    news = _news(task, branch)
    return [news] if news.text or news.token_ids else []


def _fork(task: Task, branch: Branch, child_id: int, runner: Runner) -> None:
    assert child_id not in task.branches, f"branch {child_id} is alive"
    assert len(task.branches) < task.search.max_branches, "more branches than pages were promised for"
    table, copy = branch.table.fork(branch.n_cached)
    if copy is not None:
        runner.copy_page(*copy)
    task.branches[child_id] = Branch(
        child_id,
        branch.token_ids.copy(),
        table,
        branch.transcript.fork(),
        branch.history.fork(),
        branch.notes.fork(),
        branch.n_cached,
    )


def _end(
    task: Task,
    branch: Branch,
    reason: FinishReason,
    now: float,
    *,
    stop: str | int | None = None,
    error: UnspoolError | None = None,
) -> Event:
    """Close a branch and report it; its pages are free again."""
    branch.transcript.close()
    news = _news(task, branch)
    _remove(task, branch)
    return replace(
        news,
        finish_reason=reason,
        stop=stop,
        seed=None if task.request.params.is_greedy else task.seed,
        usage=_usage(task, branch, now),
        error=error,
    )


def _news(task: Task, branch: Branch) -> Event:
    """What of a branch has become final since it was last told."""
    text, ids = branch.transcript.take()
    told = branch.notes.take(ids)
    return Event(
        task.request_id,
        text,
        ids,
        branch=branch.branch_id,
        logprobs=tuple(chosen.logprobs for chosen in told if chosen.logprobs is not None),
        trace=tuple(chosen.trace for chosen in told if chosen.trace is not None),
    )


def _with_prompt(task: Task, events: list[Event]) -> list[Event]:
    """The first event of a task whose prompt was scored tells that too, once."""
    if task.prompt_logprobs and events:
        events[0] = replace(events[0], prompt_logprobs=tuple(task.prompt_logprobs))
        task.prompt_logprobs = []
    return events


def _remove(task: Task, branch: Branch) -> None:
    del task.branches[branch.branch_id]
    branch.table.release()


def _usage(task: Task, branch: Branch, now: float) -> Usage:
    clock = task.clock
    n_chosen = len(branch.token_ids) - task.n_prompt
    started = now if clock.started is None else clock.started
    first_token = now if clock.first_token is None else clock.first_token
    return Usage(
        prompt_tokens=task.n_prompt,
        completion_tokens=len(branch.transcript.token_ids),
        ttft_ms=1e3 * (first_token - clock.added),
        prefill_s=first_token - started,
        decode_s=now - first_token,
        decoded_tokens=max(n_chosen - 1, 0),
    )
