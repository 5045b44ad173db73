"""Where the last sequence breaker ended; no repeat reaches across it."""

from __future__ import annotations

from collections.abc import Sequence

from unspool.rules import Rules


class Breakers:
    """A breaker is a token whose text holds one, or a run of tokens that does together."""

    def __init__(self, rules: Rules, prompt_ids: Sequence[int]) -> None:
        self._ids = rules.dry_breaker_ids
        self._runs: dict[int, list[tuple[int, ...]]] = {}  # by their last token
        for run in rules.dry_breaker_runs:
            self._runs.setdefault(run[-1], []).append(run)
        n_prompt = len(prompt_ids)
        ends = (end for end in range(n_prompt, 0, -1) if self._ends_at(prompt_ids, end))
        self._resets = [next(ends, 0)]  # how many tokens the text had at each breaker's end, ascending

    @property
    def last(self) -> int:
        """How many tokens the text had at the last breaker's end."""
        return self._resets[-1]

    def is_one(self, token_id: int) -> bool:
        """Whether a token alone is a breaker, so that it goes on with no repeat."""
        return token_id in self._ids

    def accept(self, token_ids: Sequence[int]) -> None:
        """token_ids has just grown by one."""
        if self._ends_at(token_ids, len(token_ids)):
            self._resets.append(len(token_ids))

    def undo(self, token_ids: Sequence[int]) -> None:
        """The last of token_ids is about to go."""
        if len(self._resets) > 1 and self._resets[-1] == len(token_ids):
            self._resets.pop()

    def fork(self) -> Breakers:
        copy = Breakers.__new__(Breakers)
        copy._ids, copy._runs, copy._resets = self._ids, self._runs, self._resets.copy()
        return copy

    def _ends_at(self, token_ids: Sequence[int], end: int) -> bool:
        last = token_ids[end - 1]
        if last in self._ids:
            return True
        return any(
            len(run) <= end and tuple(token_ids[end - len(run) : end]) == run
            for run in self._runs.get(last, ())
        )
