"""How much runs at once."""

from __future__ import annotations

import numbers

from unspool.errors import BadRequest
from unspool.light_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """How much runs at once. None of it changes a token, only when it comes."""

    n_rows: int = 512  # rows a step: decoding branches and prompt tokens
    n_tasks: int = 64  # requests let in at once
    logits_bytes: int = 32 << 20  # a step: logits of prompts whose log-probabilities are asked for
    n_preemptions: int = 3  # times that a request may be put back; after that its pages are promised
    n_unread: int = 512  # steps that a reader may be behind before its request is paused
    max_slowdown: float = 2.0  # how much longer prompts may make a step in which others decode

    def __post_init__(self) -> None:
        if {type(self.n_rows), type(self.n_tasks)} != {int} or not 1 <= self.n_tasks <= self.n_rows:
            raise BadRequest(
                f"n_tasks must be a whole number in [1, n_rows], got n_tasks={self.n_tasks} and "
                f"n_rows={self.n_rows}; each request needs a row of the step",
                code="bad_limits",
            )
        if type(self.n_preemptions) is not int or self.n_preemptions < 0:
            raise BadRequest(
                f"n_preemptions must be a whole number, at least 0, got {self.n_preemptions!r}; "
                "0 promises every request its pages from the start",
                code="bad_limits",
            )
        if type(self.n_unread) is not int or self.n_unread < 1:
            raise BadRequest(
                f"n_unread must be a whole number, at least 1, got {self.n_unread!r}; "
                "more lets a request run further ahead of its reader",
                code="bad_limits",
            )
        if not isinstance(self.max_slowdown, numbers.Real) or not self.max_slowdown > 1:
            raise BadRequest(
                f"max_slowdown must be a number above 1, got {self.max_slowdown!r}; "
                "float('inf') reads prompts as fast as it goes",
                code="bad_limits",
            )
        if type(self.logits_bytes) is not int or self.logits_bytes < 1:
            raise BadRequest(
                f"logits_bytes must be a whole number, at least 1, got {self.logits_bytes!r}; "
                "a row is read even where there is room for less",
                code="bad_limits",
            )
