"""DRY, "don't repeat yourself": a token that goes on with a repeat loses more the longer the repeat is.

p-e-w 2024 (github.com/oobabooga/text-generation-webui pull request 5677). For the longest suffix of the text
that equals an earlier span followed by token v, of n tokens and at least the allowed length: v loses
multiplier * base ** (n - allowed). The span may overlap the suffix. No repeat reaches across a sequence
breaker or out of the window, and a breaker itself goes on with none. The loss ends at 1e30, so that a
penalised token keeps a finite logit: it is the last resort, but not masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from unspool.conventions import dry_window_of
from unspool.history.dry import amount_of
from unspool.logits.stage import Logits
from unspool.param_conflicts import is_on
from unspool.params import DecodingParams
from unspool.rules import Rules
from unspool.types import Row


class Dry:
    """Looks at every earlier position and counts back from it; `history.dry` carries the counts along."""

    name: Final = "dry"

    def is_active(self, params: DecodingParams) -> bool:
        return is_on(self.name, params)

    def apply(self, logits: Logits, rows: Sequence[Row]) -> Logits:
        result: Logits = logits.copy()
        for z, row in zip(result, rows, strict=True):
            for token_id, n in longest_repeats(row).items():
                z[token_id] -= amount_of(n, row.params)
        return result


def longest_repeats(row: Row) -> dict[int, int]:
    """How long a repeat each token would go on with, by token id; those of the allowed length at least."""
    token_ids, window = list(row.token_ids), dry_window_of(row.params)
    first = 0 if window is None else max(0, len(token_ids) - window)
    n_max = len(token_ids) - _end_of_last_breaker(token_ids, row.rules)
    longest: dict[int, int] = {}
    for position in range(first + 1, len(token_ids)):
        n = 0
        while n < min(n_max, position - first) and token_ids[position - 1 - n] == token_ids[-1 - n]:
            n += 1
        follower = token_ids[position]
        if n >= row.params.dry_allowed_length and follower not in row.rules.dry_breaker_ids:
            longest[follower] = max(n, longest.get(follower, 0))
    return longest


def _end_of_last_breaker(token_ids: list[int], rules: Rules) -> int:
    """How many tokens the text had when it last ended in a breaker; 0 when it never did."""
    for end in range(len(token_ids), 0, -1):
        if token_ids[end - 1] in rules.dry_breaker_ids:
            return end
        if any(tuple(token_ids[:end][-len(run) :]) == run for run in rules.dry_breaker_runs):
            return end
    return 0
