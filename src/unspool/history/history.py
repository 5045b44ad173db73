"""A branch's text in the form that the stages ask about it, kept up to date."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from unspool import _native
from unspool.history.bad_words import BadWordEnds
from unspool.history.counts import TokenCounts
from unspool.history.dry import Repeats
from unspool.history.ngrams import NgramIndex
from unspool.history.running import Running
from unspool.params import DecodingParams
from unspool.rules import Rules

F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]

_NO_IDS: I32 = np.empty(0, np.int32)
_NO_EDITS: tuple[I32, F64] = (_NO_IDS, np.empty(0))


class _Follower(Protocol):
    """What is told of every token; the history keeps the text itself, once."""

    def accept(self, token_ids: Sequence[int]) -> None: ...

    def undo(self, token_ids: Sequence[int]) -> None: ...


class History:
    """`accept` moves forward, `rollback` undoes, `fork` copies. Starts after the prompt.

    Costs per token do not grow with the text, and what the parameters do not use is not kept. What it says
    is what the stages work out from `Row.token_ids`, which is its slow twin.
    """

    def __init__(self, params: DecodingParams, rules: Rules, prompt_ids: Sequence[int]) -> None:
        self.running = Running.of(params)
        self._counts = TokenCounts.of(params, rules, prompt_ids)
        self._repeats = Repeats.of(params, rules, prompt_ids)
        self._ngrams = NgramIndex.of(params, prompt_ids)
        self._bad_words = BadWordEnds.of(rules)
        self._n_prompt = len(prompt_ids)
        self._followers = self._told()
        is_kept = self._followers or self._bad_words is not None
        self._token_ids = list(prompt_ids) if is_kept else None

    @property
    def tally(self) -> _native.Tally | None:
        """How often tokens occur in what repetition, frequency and presence look at; None when all are off.
        It is the same one as long as the history lives."""
        return None if self._counts is None else self._counts.tally

    def dry_edits(self) -> tuple[I32, F64]:
        """Token ids (n,), ascending, and what DRY takes off the logit of each (n,)."""
        if self._repeats is None or self._token_ids is None:
            return _NO_EDITS
        edits = sorted(self._repeats.edits(self._token_ids).items())
        return _ids(token_id for token_id, _ in edits), np.array([amount for _, amount in edits], np.float64)

    def banned_next(self) -> I32:
        """Token ids (n,), ascending, that would finish a bad word or repeat a run of tokens."""
        if self._token_ids is None or (self._ngrams is None and self._bad_words is None):
            return _NO_IDS
        banned: set[int] = set()
        if self._ngrams is not None:
            banned |= self._ngrams.banned(self._token_ids)
        if self._bad_words is not None:
            banned |= self._bad_words.banned(self._token_ids)
        return _ids(sorted(banned))

    def accept(self, token_id: int, observed: float | None = None) -> None:
        """The text grows by a token. `observed` is Chosen.observed: the token's surprise in bits before
        mirostat's cut, or its probability before adaptive-p; None when nothing runs."""
        if self.running is not None:
            self.running.accept(observed)
        if self._token_ids is not None:
            self._token_ids.append(token_id)
            for follower in self._followers:
                follower.accept(self._token_ids)

    def rollback(self, n: int) -> None:
        """Undo the last n accepted tokens."""
        if self.running is not None:
            self.running.rollback(n)
        if self._token_ids is not None:
            n_accepted = len(self._token_ids) - self._n_prompt
            assert 0 <= n <= n_accepted, f"cannot undo {n} of {n_accepted} tokens"
            for _ in range(n):
                for follower in self._followers:
                    follower.undo(self._token_ids)
                self._token_ids.pop()

    def fork(self) -> History:
        copy = History.__new__(History)
        copy.running = None if self.running is None else self.running.fork()
        copy._counts = None if self._counts is None else self._counts.fork()
        copy._repeats = None if self._repeats is None else self._repeats.fork()
        copy._ngrams = None if self._ngrams is None else self._ngrams.fork()
        copy._bad_words, copy._n_prompt = self._bad_words, self._n_prompt
        copy._followers = copy._told()
        copy._token_ids = None if self._token_ids is None else self._token_ids.copy()
        return copy

    def _told(self) -> tuple[_Follower, ...]:
        kept = (self._counts, self._repeats, self._ngrams)
        return tuple(follower for follower in kept if follower is not None)


def _ids(token_ids: Iterable[int]) -> I32:
    return np.fromiter(token_ids, np.int32)
