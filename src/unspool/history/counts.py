"""How often each token occurs in what the penalties look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from unspool.history.scope import Scope
from unspool.param_conflicts import PENALTIES, is_on
from unspool.params import DecodingParams
from unspool.rules import Rules

I32 = npt.NDArray[np.int32]

_REPETITION, _ADDITIVE = 0, 1
_ROOM: Final = 64  # tokens that there is room for at first


class PenaltyCounts(NamedTuple):
    """Views of n distinct tokens, in no order, valid until the history changes; read only."""

    token_ids: I32  # (n,)
    repetition: I32  # (n,) how often in what repetition looks at; 0 when it is off
    additive: I32  # (n,) how often in what frequency and presence look at; 0 when both are off


NO_COUNTS: Final = PenaltyCounts(*(np.empty(0, np.int32) for _ in range(3)))


class TokenCounts:
    """A count for every distinct token in the scopes; a token steps out of a window as another steps in.

    Two array writes a token, whatever the text's length: a table of the distinct tokens, without holes, and
    where each stands in it.
    """

    def __init__(self, params: DecodingParams, rules: Rules, prompt_ids: Sequence[int]) -> None:
        self._n_prompt = len(prompt_ids)
        self._scopes: list[tuple[int, Scope]] = []
        if is_on("repetition", params):
            self._scopes.append((_REPETITION, Scope.of("repetition", params)))
        if is_on("frequency", params) or is_on("presence", params):
            self._scopes.append((_ADDITIVE, Scope.of("frequency", params)))  # as presence
        self._left_out_ids = frozenset(params.penalty_exclude_ids)
        self._left_out_at = rules.template_positions if params.penalty_exclude_template else frozenset()
        self._ids = np.empty(_ROOM, np.int32)
        self._counts = np.zeros((2, _ROOM), np.int32)
        self._index: dict[int, int] = {}  # token id to its place in the table
        self._told: PenaltyCounts | None = None  # last, of the arrays as they are
        for which, scope in self._scopes:
            self._add_prompt(which, scope, prompt_ids)

    @classmethod
    def of(cls, params: DecodingParams, rules: Rules, prompt_ids: Sequence[int]) -> TokenCounts | None:
        """None when no parameter asks for it."""
        return cls(params, rules, prompt_ids) if any(is_on(name, params) for name in PENALTIES) else None

    def counts(self) -> PenaltyCounts:
        n = len(self._index)
        told = self._told
        if told is None or told.token_ids.size != n:  # views see what changes in place
            repetition, additive = self._counts[:, :n]
            told = self._told = PenaltyCounts(self._ids[:n], repetition, additive)
        return told

    def accept(self, token_ids: Sequence[int]) -> None:
        """token_ids has just grown by one."""
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
        copy._n_prompt, copy._scopes = self._n_prompt, self._scopes
        copy._left_out_ids, copy._left_out_at = self._left_out_ids, self._left_out_at
        copy._ids, copy._counts, copy._index = self._ids.copy(), self._counts.copy(), self._index.copy()
        copy._told = None
        return copy

    def _slide(self, which: int, scope: Scope, n_tokens: int, token_ids: Sequence[int], by: int) -> None:
        """Count the position that the window of n_tokens has left behind since n_tokens - 1."""
        before, _ = scope.span(self._n_prompt, n_tokens - 1)
        now, _ = scope.span(self._n_prompt, n_tokens)
        if now > before:
            self._add(which, before, token_ids, by)

    def _add(self, which: int, position: int, token_ids: Sequence[int], by: int) -> None:
        token_id = token_ids[position]
        if position in self._left_out_at or token_id in self._left_out_ids:
            return
        at = self._place(token_id)
        self._counts[which, at] += by
        if by < 0 and not self._counts[:, at].any():
            self._remove(token_id, at)

    def _add_prompt(self, which: int, scope: Scope, prompt_ids: Sequence[int]) -> None:
        start, stop = scope.span(self._n_prompt, self._n_prompt)
        counted = np.ones(stop - start, np.bool_)
        counted[[at - start for at in self._left_out_at if start <= at < stop]] = False
        found, counts = np.unique(np.array(prompt_ids[start:stop], np.int32)[counted], return_counts=True)
        for token_id, count in zip(found.tolist(), counts.tolist(), strict=True):
            if token_id not in self._left_out_ids:
                at = self._place(token_id)  # before the table is looked at: it may grow into a new one
                self._counts[which, at] = count

    def _place(self, token_id: int) -> int:
        """Where a token stands in the table; a new one is put at its end."""
        at = self._index.get(token_id)
        if at is None:
            at = self._index[token_id] = len(self._index)
            if at == self._ids.size:
                self._grow()
            self._ids[at] = token_id
            self._counts[:, at] = 0
        return at

    def _remove(self, token_id: int, at: int) -> None:
        """The last token of the table takes the place of one that occurs no more."""
        del self._index[token_id]
        last = len(self._index)
        if at != last:
            moved = int(self._ids[last])
            self._ids[at], self._index[moved] = moved, at
            self._counts[:, at] = self._counts[:, last]

    def _grow(self) -> None:
        n = self._ids.size
        self._told = None
        self._ids = np.concatenate([self._ids, np.empty(n, np.int32)])
        self._counts = np.concatenate([self._counts, np.zeros((2, n), np.int32)], axis=1)
