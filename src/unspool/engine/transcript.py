"""What a branch has written: token ids and their text, cut at the same place.

    bytes    [0, n_released) decoded and reported | [n_released, n_bytes) held back
    tokens   [0, len(ends)) have their bytes counted | those that `tell` took are counted when that is asked

Held back is what may still become a stop; a token is reported once all its bytes are. When a stop cuts the
text, the tokens that have a byte before the cut stay, and the others go.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from unspool.automaton import Automaton, compile_pattern
from unspool.engine.detokenize import Detokenizer, Vocabulary
from unspool.engine.loop import LoopDetector
from unspool.engine.stop import StopMatcher, StopString
from unspool.engine.stop_regex import RegexMatcher
from unspool.light_dataclass import dataclass
from unspool.params import DecodingParams
from unspool.rules import Rules


@dataclass(frozen=True, slots=True)
class StopRules:
    """What ends a text, from its parameters and its vocabulary; shared by all branches of a request."""

    ids: frozenset[int]
    strings: tuple[StopString, ...]
    patterns: tuple[Automaton, ...]
    include: bool  # keep what ended the text
    min_tokens: int  # no string, pattern or loop that is complete before so many tokens ends the text
    loop_min_count: int
    loop_max_length: int

    @classmethod
    def of(cls, params: DecodingParams, rules: Rules) -> StopRules:
        return cls(
            ids=rules.end_ids,
            strings=_compiled(tuple(params.stop)),
            patterns=tuple(map(compile_pattern, params.stop_regex)),
            include=params.include_stop,
            min_tokens=params.min_tokens,
            loop_min_count=params.loop_min_count,
            loop_max_length=params.loop_max_length,
        )


@lru_cache(maxsize=64)
def _compiled(stops: tuple[str, ...]) -> tuple[StopString, ...]:
    return tuple(map(StopString.compile, stops))


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a text ends with a token, and what is left of it."""

    reason: Literal["stop", "loop"]
    stop: str | int | None  # the stop string, the pattern or the token id
    n_bytes: int
    n_tokens: int


class Transcript:
    """`accept` a token, `take` what has become final, `rollback` what was not taken, `fork` a copy."""

    def __init__(self, rules: StopRules, vocabulary: Vocabulary, *, is_followed: bool = True) -> None:
        """One that nobody follows is taken at its end alone: till then `tell` need say nothing."""
        self._rules = rules
        self._vocabulary = vocabulary
        self._is_followed = is_followed
        self._looks = bool(rules.strings or rules.patterns or rules.loop_min_count)  # or nothing is held back
        self._strings = StopMatcher(rules.strings)
        self._patterns = RegexMatcher(rules.patterns)
        self._loops = LoopDetector(rules.loop_min_count, rules.loop_max_length)
        self._detokenizer = Detokenizer()
        self._ids: list[int] = []
        self._ends: list[int] = []  # for each token that is counted, how many bytes there are after it
        self._held = bytearray()  # bytes [n_released, n_bytes)
        self._n_released = 0
        self._n_reported = 0  # tokens
        self._ending: Ending | None = None
        self._is_closed = False

    @property
    def token_ids(self) -> Sequence[int]:
        """The tokens that stay, held back or not."""
        return self._ids if self._ending is None else self._ids[: self._ending.n_tokens]

    def accept(self, token_id: int) -> Ending | None:
        """Take the next token; how it ends the text, if it does."""
        assert not self._is_closed, "the text has ended"
        self._catch_up()
        # An id that ends the text does so even before min_tokens: it is masked till then, so whoever chose
        # it had nothing else to choose.
        ends = token_id in self._rules.ids
        n_before, n_bytes_before = len(self._ids), self._n_bytes
        data = self._vocabulary.token_bytes(token_id)
        self._ids.append(token_id)
        self._held += data
        self._ends.append(self._n_bytes)
        match = loop = None
        counts = not ends and len(self._ids) >= self._rules.min_tokens
        if self._looks:
            stops = (self._strings.accept(data, counts=counts), self._patterns.accept(data, counts=counts))
            match = min((m for m in stops if m is not None), key=lambda m: (m.end, m.start), default=None)
            loop = self._loops.accept(token_id)
        if ends:
            if self._rules.include:
                self._ending = Ending("stop", token_id, self._n_bytes, n_before + 1)
            else:
                self._ending = Ending("stop", token_id, n_bytes_before, n_before)
        elif match is not None:
            cut = match.end if self._rules.include else match.start
            self._ending = Ending("stop", match.stop, cut, self._n_tokens_within(cut))
        elif loop is not None and counts:
            self._ending = Ending("loop", None, self._n_bytes, n_before + 1)
        self._is_closed = self._ending is not None
        return self._ending

    def tell(self, token_id: int) -> str | None:
        """`accept` and `take` in one where that is all there is to it: the text that a token adds, told at
        once, and nothing of a text that is not followed. None, and nothing is done, where the token may end
        the text or what it says may be held back."""
        if self._looks or token_id in self._rules.ids:
            return None
        self._ids.append(token_id)
        if not self._is_followed:
            return ""
        assert not self._held, "what was said before has been taken"
        return self._detokenizer.accept(self._vocabulary.token_bytes(token_id))

    def _catch_up(self) -> None:
        """Count the tokens that `tell` took: where the text is followed, they were told."""
        for token_id in self._ids[len(self._ends) :]:
            data = self._vocabulary.token_bytes(token_id)
            if self._is_followed:
                self._n_released += len(data)
                self._n_reported += 1
            else:
                self._held += data
            self._ends.append(self._n_bytes)

    @property
    def n_bytes_final(self) -> int:
        """How many bytes stay, whatever follows."""
        self._catch_up()
        if self._ending is not None:
            return self._ending.n_bytes
        n_held = 0 if self._is_closed else max(self._strings.n_held, self._patterns.n_held)
        return self._n_bytes - n_held

    def end_of(self, index: int) -> int:
        """How many bytes there are after that many tokens and one."""
        self._catch_up()
        return self._ends[index]

    def bytes_of(self, first: int, last: int) -> bytes:
        """Bytes [first, last) of a text of which nothing was taken."""
        self._catch_up()
        assert self._n_released == 0, "what was taken is no longer here"
        return bytes(self._held[first:last])

    @property
    def n_whole(self) -> int:
        """How many tokens stay with all their bytes."""
        n_bytes = self.n_bytes_final
        return min(bisect_right(self._ends, n_bytes), len(self.token_ids))

    def close(self) -> None:
        """The text ends here for another reason: nothing is held back any longer. Idempotent."""
        self._is_closed = True

    def take(self) -> tuple[str, tuple[int, ...]]:
        """Text and token ids that have become final since the last call."""
        self._catch_up()
        if self._ending is not None:
            n_final = self._ending.n_bytes - self._n_released
        else:
            n_final = len(self._held)
            if self._looks and not self._is_closed:
                n_final -= max(self._strings.n_held, self._patterns.n_held)
        text = self._detokenizer.accept(bytes(self._held[:n_final]), final=self._is_closed)
        del self._held[:n_final]
        self._n_released += n_final
        first, ids = self._n_reported, self.token_ids
        if self._ending is not None:
            self._n_reported = len(ids)
        while self._n_reported < len(ids) and self._ends[self._n_reported] <= self._n_released:
            self._n_reported += 1
        return text, tuple(ids[first : self._n_reported])

    def rollback(self, n: int) -> None:
        """Undo the last n tokens, of which nothing was taken; a text that one of them ended goes on."""
        self._catch_up()
        n_left = len(self._ids) - n
        n_bytes = self._ends[n_left - 1] if n_left > 0 else 0
        assert n_left >= self._n_reported, "tokens that were taken stay"
        assert n_bytes >= self._n_released, "text that was taken stays"
        for follower in (self._strings, self._patterns, self._loops):
            follower.rollback(n)
        del self._ids[n_left:]
        del self._ends[n_left:]
        del self._held[n_bytes - self._n_released :]
        self._ending = None
        self._is_closed = False

    def fork(self) -> Transcript:
        copy = Transcript.__new__(Transcript)
        copy._rules = self._rules
        copy._vocabulary = self._vocabulary
        copy._looks = self._looks
        copy._is_followed = self._is_followed
        copy._strings = self._strings.fork()
        copy._patterns = self._patterns.fork()
        copy._loops = self._loops.fork()
        copy._detokenizer = self._detokenizer.fork()
        copy._ids = self._ids.copy()
        copy._ends = self._ends.copy()
        copy._held = self._held.copy()
        copy._n_released = self._n_released
        copy._n_reported = self._n_reported
        copy._ending = self._ending
        copy._is_closed = self._is_closed
        return copy

    @property
    def _n_bytes(self) -> int:
        return self._n_released + len(self._held)

    def _n_tokens_within(self, n_bytes: int) -> int:
        """How many tokens have a part in the first n_bytes bytes; those without bytes are where they are."""
        n = len(self._ids)
        while n and self._ends[n - 1] > n_bytes and (self._ends[n - 2] if n > 1 else 0) >= n_bytes:
            n -= 1
        return n
