"""Which tokens would write a run of n tokens a second time."""

from __future__ import annotations

from collections.abc import Sequence

from unspool.history.occurrences import Occurrences
from unspool.params import DecodingParams


class NgramIndex:
    """For `no_repeat_ngram_size`: what has followed the last n - 1 tokens."""

    def __init__(self, n: int, prompt_ids: Sequence[int]) -> None:
        assert n >= 1, n
        # A run of one token is repeated by any token that has occurred: no context to look up.
        self._contexts = Occurrences(n - 1, prompt_ids) if n > 1 else None
        self._written = dict.fromkeys(prompt_ids, 1) if n == 1 else {}  # token to how often, or at least 1

    @classmethod
    def of(cls, params: DecodingParams, prompt_ids: Sequence[int]) -> NgramIndex | None:
        n = params.no_repeat_ngram_size
        return cls(n, prompt_ids) if n else None

    def banned(self, token_ids: Sequence[int]) -> set[int]:
        if self._contexts is None:
            return set(self._written)
        return {token_ids[end] for end in self._contexts.ends(token_ids)}

    def accept(self, token_ids: Sequence[int]) -> None:
        """token_ids has just grown by one."""
        if self._contexts is not None:
            self._contexts.accept(token_ids)
        else:
            self._written[token_ids[-1]] = self._written.get(token_ids[-1], 0) + 1

    def undo(self, token_ids: Sequence[int]) -> None:
        """The last of token_ids is about to go."""
        if self._contexts is not None:
            self._contexts.undo(token_ids)
            return
        token_id = token_ids[-1]
        self._written[token_id] -= 1
        if not self._written[token_id]:
            del self._written[token_id]

    def fork(self) -> NgramIndex:
        copy = NgramIndex.__new__(NgramIndex)
        copy._contexts = None if self._contexts is None else self._contexts.fork()
        copy._written = self._written.copy()
        return copy
