"""DRY ("don't repeat yourself", p-e-w 2024): what would make the text repeat itself, and for how long."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from unspool.conventions import dry_window_of
from unspool.history.breakers import Breakers
from unspool.history.occurrences import Occurrences
from unspool.params import DecodingParams
from unspool.rules import Rules

# The largest amount taken off a logit. base ** n leaves every number's range for a long repeat; from here
# on it makes no difference to any probability, and the logit stays finite, so that a token is not masked.
LARGEST_AMOUNT: Final = 1e30
_LOG_LARGEST: Final = math.log(LARGEST_AMOUNT)
_FEW: Final = 64  # matches that are measured one by one; more of them in one go over the text


def amount_of(n: int, params: DecodingParams) -> float:
    """What a token that would make n tokens repeat loses; n is at least the allowed length."""
    exponent = n - params.dry_allowed_length
    if exponent * math.log(params.dry_base) > _LOG_LARGEST + 10:
        return LARGEST_AMOUNT
    return min(params.dry_multiplier * params.dry_base**exponent, LARGEST_AMOUNT)


class Repeats:
    """Every earlier place where the text ended as it ends now, with the number of tokens that are equal.

    A token carries these matches on: those it continues grow by one, the others end, and those of exactly
    the allowed length are looked up. Work per token is the number of matches; a text that DRY steers has few.
    Undoing tokens makes the matches anew when they are next asked for.
    """

    def __init__(self, params: DecodingParams, rules: Rules, prompt_ids: Sequence[int]) -> None:
        self._params = params
        self._runs = Occurrences(params.dry_allowed_length, prompt_ids)
        self._breakers = Breakers(rules, prompt_ids)
        self._lengths: dict[int, int] | None = None  # position to equal tokens before it; None: not known

    @classmethod
    def of(cls, params: DecodingParams, rules: Rules, prompt_ids: Sequence[int]) -> Repeats | None:
        return cls(params, rules, prompt_ids) if params.dry_multiplier else None

    def edits(self, token_ids: Sequence[int]) -> dict[int, float]:
        """What the next token loses, by token id."""
        n_tokens, allowed = len(token_ids), self._params.dry_allowed_length
        within_breaker = n_tokens - self._breakers.last
        if within_breaker < allowed:
            return {}
        window = dry_window_of(self._params)
        first = 0 if window is None else max(0, n_tokens - window)
        longest: dict[int, int] = {}
        for position, length in self._known(token_ids).items():
            n = min(length, within_breaker, position - first)
            follower = token_ids[position]
            if n >= allowed and n > longest.get(follower, 0) and not self._breakers.is_one(follower):
                longest[follower] = n
        return {token_id: amount_of(n, self._params) for token_id, n in longest.items()}

    def accept(self, token_ids: Sequence[int]) -> None:
        """token_ids has just grown by one."""
        self._runs.accept(token_ids)
        self._breakers.accept(token_ids)
        if self._lengths is None:
            return
        written = token_ids[-1]
        carried = {at + 1: n + 1 for at, n in self._lengths.items() if token_ids[at] == written}
        allowed = self._params.dry_allowed_length
        self._lengths = {at: carried.get(at, allowed) for at in self._runs.ends(token_ids)}

    def undo(self, token_ids: Sequence[int]) -> None:
        """The last of token_ids is about to go."""
        self._runs.undo(token_ids)
        self._breakers.undo(token_ids)
        self._lengths = None

    def fork(self) -> Repeats:
        copy = Repeats.__new__(Repeats)
        copy._params, copy._runs, copy._breakers = self._params, self._runs.fork(), self._breakers.fork()
        copy._lengths = self._lengths  # replaced, never written to
        return copy

    def _known(self, token_ids: Sequence[int]) -> dict[int, int]:
        if self._lengths is None:
            ends = list(self._runs.ends(token_ids))
            if len(ends) <= _FEW:
                allowed = self._params.dry_allowed_length
                self._lengths = {end: equal_before(token_ids, end, allowed) for end in ends}
            else:
                equal = equal_before_each(token_ids)
                self._lengths = {end: equal[end] for end in ends}
        return self._lengths


def equal_before(token_ids: Sequence[int], end: int, at_least: int) -> int:
    """How many tokens before `end` equal the last of the text, of which `at_least` are known to."""
    now, n, step = len(token_ids), at_least, 1
    while step:
        # Twice as far while all is equal, then half as far until nothing more is.
        if n + step <= end and token_ids[end - n - step : end - n] == token_ids[now - n - step : now - n]:
            n += step
            step *= 2
        else:
            step //= 2
    return n


def equal_before_each(token_ids: Sequence[int]) -> list[int]:
    """`equal_before` for every position at once, in one go over the text: its Z array, from behind
    (Gusfield 1997)."""
    text = token_ids[::-1]
    n_tokens = len(text)
    equal = [0] * n_tokens
    left = right = 0  # text[left:right] equals the beginning of text, and no match found ends later
    for i in range(1, n_tokens):
        n = min(right - i, equal[i - left]) if i < right else 0
        while i + n < n_tokens and text[n] == text[i + n]:
            n += 1
        equal[i] = n
        if i + n > right:
            left, right = i, i + n
    return [0, *equal[:0:-1]]
