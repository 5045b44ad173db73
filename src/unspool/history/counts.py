"""How often each token occurs in what the penalties look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from unspool import _native
from unspool.history.scope import Scope
from unspool.param_conflicts import PENALTIES, is_on
from unspool.params import DecodingParams
from unspool.rules import Rules

_REPETITION: Final = 0  # numbers of the scopes in a tally
_ADDITIVE: Final = 1  # frequency and presence


class TokenCounts:
    """A count for every distinct token in the scopes; a token steps out of a window as another steps in.

    What is counted lies in `tally`, where the fused pass reads it without a lock: so `accept` and `undo` are
    for the thread that makes the passes, as everything that changes a branch is. Work per token does not grow
    with texts.
    """

    def __init__(self, params: DecodingParams, rules: Rules, prompt_ids: Sequence[int]) -> None:
        self.tally = _native.Tally()
        self._n_prompt = len(prompt_ids)
        self._scopes: list[tuple[int, Scope]] = []
        if is_on("repetition", params):
            self._scopes.append((_REPETITION, Scope.of("repetition", params)))
        if is_on("frequency", params) or is_on("presence", params):
            self._scopes.append((_ADDITIVE, Scope.of("frequency", params)))  # as presence
        self._left_out_ids = frozenset(params.penalty_exclude_ids)
        self._left_out_at = rules.template_positions if params.penalty_exclude_template else frozenset()
        for which, scope in self._scopes:
            self._add_prompt(which, scope, prompt_ids)
        # Those that take in every token of the answer and let none go, if that is all of them.
        self._growing: tuple[int, ...] | None = None
        if not (self._left_out_ids or self._left_out_at or any(scope.window for _, scope in self._scopes)):
            self._growing = tuple(which for which, scope in self._scopes if scope.output)

    @classmethod
    def of(cls, params: DecodingParams, rules: Rules, prompt_ids: Sequence[int]) -> TokenCounts | None:
        """None when no parameter asks for it."""
        return cls(params, rules, prompt_ids) if any(is_on(name, params) for name in PENALTIES) else None

    def accept(self, token_ids: Sequence[int]) -> None:
        """token_ids has just grown by one."""
        if self._growing is not None:
            for which in self._growing:
                self.tally.add(which, token_ids[-1], 1)
            return
        n_tokens = len(token_ids)
        for which, scope in self._scopes:
            if scope.output:
                self._add(which, n_tokens - 1, token_ids, 1)
                if scope.window is not None:
                    self._slide(which, scope, n_tokens, token_ids, -1)

    def undo(self, token_ids: Sequence[int]) -> None:
        """The last of token_ids is about to go."""
        n_tokens = len(token_ids)
        for which, scope in self._scopes:
            if scope.output:
                self._add(which, n_tokens - 1, token_ids, -1)
                if scope.window is not None:
                    self._slide(which, scope, n_tokens, token_ids, 1)

    def fork(self) -> TokenCounts:
        copy = TokenCounts.__new__(TokenCounts)
        copy.tally = self.tally.copy()
        copy._n_prompt, copy._scopes = self._n_prompt, self._scopes
        copy._left_out_ids, copy._left_out_at = self._left_out_ids, self._left_out_at
        copy._growing = self._growing
        return copy

    def _slide(self, which: int, scope: Scope, n_tokens: int, token_ids: Sequence[int], by: int) -> None:
        """Count the position that the window of n_tokens has left behind since n_tokens - 1."""
        before, _ = scope.span(self._n_prompt, n_tokens - 1)
        now, _ = scope.span(self._n_prompt, n_tokens)
        if now > before:
            self._add(which, before, token_ids, by)

    def _add(self, which: int, position: int, token_ids: Sequence[int], by: int) -> None:
        token_id = token_ids[position]
        if position not in self._left_out_at and token_id not in self._left_out_ids:
            self.tally.add(which, token_id, by)

    def _add_prompt(self, which: int, scope: Scope, prompt_ids: Sequence[int]) -> None:
        start, stop = scope.span(self._n_prompt, self._n_prompt)
        counted = np.ones(stop - start, np.bool_)
        counted[[at - start for at in self._left_out_at if start <= at < stop]] = False
        found, counts = np.unique(np.array(prompt_ids[start:stop], np.int32)[counted], return_counts=True)
        for token_id, count in zip(found.tolist(), counts.tolist(), strict=True):
            if token_id not in self._left_out_ids:
                self.tally.add(which, token_id, count)
