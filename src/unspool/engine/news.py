"""What an event says of a branch, read off the task; nothing here changes anything."""

from __future__ import annotations

from collections.abc import Sequence

from unspool.engine.task import Branch, Task
from unspool.types import Chosen, Event, Usage


def event_of(task: Task, number: int, text: str, ids: Sequence[int], chosen: Sequence[Chosen]) -> Event:
    """Text and token ids of the answer of that number, with what is known of each token."""
    return Event(
        task.request_id,
        text,
        tuple(ids),
        branch=number,
        logprobs=tuple(c.logprobs for c in chosen if c.logprobs is not None),
        trace=tuple(c.trace for c in chosen if c.trace is not None),
    )


def usage_of(task: Task, branch: Branch, now: float) -> Usage:
    """What a branch has cost by now."""
    clock = task.clock
    n_chosen = len(branch.token_ids) - task.n_prompt
    started = now if clock.started is None else clock.started
    first_token = now if clock.first_token is None else clock.first_token
    return Usage(
        prompt_tokens=task.n_prompt,
        cached_tokens=task.n_prompt_cached,
        completion_tokens=len(branch.transcript.token_ids),
        queue_ms=1e3 * (started - clock.added),
        ttft_ms=1e3 * (first_token - clock.added),
        prefill_s=first_token - started,
        decode_s=now - first_token,
        decoded_tokens=max(n_chosen - 1, 0),
        n_preempted=task.n_preempted,
        reread_tokens=task.n_reread,
        inter_token=branch.gaps.summary(),
    )
