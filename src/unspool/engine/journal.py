"""What has happened in an engine: counted, timed, and told to the logger "unspool".

Counting is `commit`'s, where things happen; nothing is ever decided by it. A log record's message is for
people, and its attribute `unspool` is a dict for programs that `json.dumps` takes:

    model.loaded        INFO    path, architecture, runner, kv_tokens, kv_bytes, page_size, load_s
    request.added       DEBUG   request_id, prompt_tokens, max_new_tokens, n, priority
    request.started     DEBUG   request_id, queue_ms, cached_tokens
    request.preempted   INFO    request_id, n_preempted, dropped_tokens
    request.not_copied  WARNING request_id, error: a page that was found, and has to be read after all
    request.finished    INFO    request_id, branch, reason, error, and the fields of Usage; one an answer

No record holds text or token ids: logs travel further than answers.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, get_args

from unspool.errors import UnspoolError
from unspool.read_only import ReadOnly
from unspool.types import FinishReason, Usage

if TYPE_CHECKING:
    from unspool.engine.task import Task

LOGGER: Final = logging.getLogger("unspool")
LOGGER.addHandler(logging.NullHandler())  # silent until a program wants to hear

_COUNTERS: Final = (
    *("n_steps", "n_added", "n_preemptions"),
    *("tokens_read", "tokens_found", "tokens_reread", "tokens_decoded"),
    *("plan_s", "forward_s", "pipeline_s", "commit_s"),
)


class Journal:
    """The counters of one engine. Times come from `clock`, seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.n_steps = 0
        self.n_added = 0
        self.n_preemptions = 0
        self.tokens_read = 0
        self.tokens_found = 0
        self.tokens_reread = 0
        self.tokens_decoded = 0
        self.finished: dict[FinishReason, int] = dict.fromkeys(get_args(FinishReason), 0)
        self.plan_s = self.forward_s = self.pipeline_s = self.commit_s = 0.0
        self._laps: list[float] = []
        self.watch: Callable[[Sequence[float]], None] | None = None  # told the times of every step

    def begin_step(self) -> None:
        """The first of a step's times. One that raised before is not counted."""
        self._laps = [self.clock()]

    def lap(self) -> float:
        """A part of the step is over: plan, forward and pipeline, in this order. Returns the time."""
        now = self.clock()
        self._laps.append(now)
        return now

    def end_step(self) -> None:
        started, planned, forwarded, decided = self._laps
        self.n_steps += 1
        self.plan_s += planned - started
        self.forward_s += forwarded - planned
        self.pipeline_s += decided - forwarded
        ended = self.clock()
        self.commit_s += ended - decided
        if self.watch is not None:
            self.watch((started, planned, forwarded, decided, ended))

    def added(self, task: Task) -> None:
        self.n_added += 1
        if LOGGER.isEnabledFor(logging.DEBUG):
            tell(
                logging.DEBUG,
                "request.added",
                f"request {task.request_id} with {task.n_prompt} prompt tokens",
                request_id=task.request_id,
                prompt_tokens=task.n_prompt,
                max_new_tokens=task.n_new_max,
                n=task.request.n,
                priority=task.priority,
            )

    def started(self, task: Task, now: float) -> None:
        if LOGGER.isEnabledFor(logging.DEBUG):
            queue_ms = 1e3 * (now - task.clock.added)
            tell(
                logging.DEBUG,
                "request.started",
                f"request {task.request_id} after {queue_ms:.1f} ms",
                request_id=task.request_id,
                queue_ms=queue_ms,
                cached_tokens=task.n_prompt_cached,
            )

    def preempted(self, task: Task, n_dropped: int) -> None:
        """A task lost n_dropped tokens of keys and values."""
        self.n_preemptions += 1
        if LOGGER.isEnabledFor(logging.INFO):
            tell(
                logging.INFO,
                "request.preempted",
                f"request {task.request_id} put back, {n_dropped} tokens given up",
                request_id=task.request_id,
                n_preempted=task.n_preempted,
                dropped_tokens=n_dropped,
            )

    def not_copied(self, task: Task, error: Exception) -> None:
        """A page that a task had found in the cache could not be copied for it."""
        tell(
            logging.WARNING,
            "request.not_copied",
            f"request {task.request_id} reads a page that could not be copied: {error!r}",
            request_id=task.request_id,
            error=repr(error),
        )

    def ended(
        self, task: Task, branch_id: int, reason: FinishReason, usage: Usage, error: UnspoolError | None
    ) -> None:
        """An answer is complete."""
        self.finished[reason] += 1
        if LOGGER.isEnabledFor(logging.INFO):
            tell(
                logging.INFO,
                "request.finished",
                f"request {task.request_id} ended ({reason}) after {usage.completion_tokens} tokens",
                request_id=task.request_id,
                branch=branch_id,
                reason=reason,
                error=None if error is None else error.code,
                **asdict(usage),
            )

    def counters(self) -> dict[str, Any]:
        """The part of EngineStats that is counted here."""
        counted: dict[str, Any] = {name: getattr(self, name) for name in _COUNTERS}
        return counted | {"finished": ReadOnly(self.finished)}


def tell(level: int, event: str, message: str, **fields: Any) -> None:
    """One record. What a filter raises is printed, as logging prints what a handler raises: a request that
    is half committed must not fail for it."""
    try:
        LOGGER.log(level, "%s: %s", event, message, extra={"unspool": {"event": event, **fields}})
    except Exception:
        if logging.raiseExceptions and sys.stderr is not None:
            traceback.print_exc()
