"""How many rows of prompts a step may take while others decode, from what steps have cost so far."""

from __future__ import annotations

from typing import Final

_MEMORY: Final = 0.8  # how much of an average a new step leaves in place
_LEAST: Final = 8  # rows: a prompt always moves on


class Pace:
    """Keeps the steps of running streams below `max_slowdown` times what they take without prompts.

    A step of d decoding rows and p prompt rows is taken to cost decode(d) + p * row, seconds. Which rows
    share a step changes no token, so this may look at a clock.
    """

    def __init__(self, max_slowdown: float) -> None:
        self._max_slowdown = max_slowdown
        self._decode_s: float | None = None  # a step without prompts
        self._row_s: float | None = None  # a prompt's row

    def n_prompt_rows(self, n_decoding: int, n_most: int) -> int:
        """At most n_most rows for prompts beside n_decoding rows."""
        if n_decoding == 0 or not self._decode_s or not self._row_s:
            return n_most
        n = (self._max_slowdown - 1) * self._decode_s / self._row_s
        return n_most if n >= n_most else min(max(int(n), _LEAST), n_most)

    def observe(self, n_decoding: int, n_prompt: int, seconds: float) -> None:
        """A step of so many rows took so long."""
        if n_prompt == 0:
            self._decode_s = _blend(self._decode_s, seconds)
        elif n_decoding == 0 or self._decode_s is not None:
            rest = seconds - (self._decode_s or 0.0 if n_decoding else 0.0)
            self._row_s = _blend(self._row_s, max(rest, 0.0) / n_prompt)


def _blend(average: float | None, new: float) -> float:
    return new if average is None else _MEMORY * average + (1 - _MEMORY) * new
