"""What an engine is doing and has done, as numbers at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from unspool.light_dataclass import dataclass
from unspool.types import FinishReason


@dataclass(frozen=True, slots=True)
class EngineStats:
    """Gauges say what is now; counters only grow, from 0 when the engine was made.

    Every page is free, cached or live: n_pages_free + n_pages_cached + n_pages_live = n_pages. Times are
    wall clock of the steps that ran; plan_s + forward_s + pipeline_s + commit_s is all of it.
    """

    # Gauges
    n_running: int  # requests let in
    n_waiting: int  # requests in the queue
    n_paused: int  # requests whose readers are behind
    n_pages: int
    n_pages_free: int
    n_pages_cached: int  # kept for texts that begin alike; as good as free
    n_pages_live: int  # held by requests
    n_pages_in_tree: int  # cached ones, and live ones that others may share
    page_size: int  # tokens a page

    # Counters
    n_steps: int
    n_added: int  # requests
    n_preemptions: int
    tokens_read: int  # of prompts, for the first time
    tokens_found: int  # in the prefix tree when a text began to be read, or read on after a preemption
    tokens_reread: int  # read once more after a preemption, what was not found any more
    tokens_decoded: int  # chosen, the first of each answer too
    finished: Mapping[FinishReason, int]  # answers by why they ended; a request with n answers counts n

    # Seconds of the steps
    plan_s: float  # who runs, pages for it, the arrays
    forward_s: float  # the network
    pipeline_s: float  # stages, searches, log-probabilities
    commit_s: float  # pages, texts, events

    @property
    def step_s(self) -> float:
        return self.plan_s + self.forward_s + self.pipeline_s + self.commit_s

    @property
    def overhead(self) -> float:
        """The part of the steps' time that was not the network's, in [0, 1]."""
        return 1 - self.forward_s / self.step_s if self.step_s > 0 else 0.0

    @property
    def hit_rate(self) -> float:
        """The part of all tokens needed in the cache that was found there, in [0, 1]."""
        n = self.tokens_found + self.tokens_read + self.tokens_reread
        return self.tokens_found / n if n else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return values | {"finished": dict(self.finished)}
