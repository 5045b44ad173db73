"""What a branch has written: token ids and their text, cut at the same place.

    bytes    [0, n_released) decoded and reported | [n_released, n_bytes) held back

Held back is what may still become a stop string; a token is reported once all its bytes are. When a
stop string cuts the text, the tokens that have a byte before the cut stay, and the others go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from unspool.engine.detokenize import Detokenizer, Vocabulary
from unspool.engine.stop import StopMatcher, StopString
from unspool.params import DecodingParams
from unspool.rules import Rules


@dataclass(frozen=True, slots=True)
class StopRules:
    """What ends a text, from its parameters and its vocabulary; shared by all branches of a request."""

    ids: frozenset[int]
    strings: tuple[StopString, ...]
    include: bool  # keep what ended the text

    @classmethod
    def of(cls, params: DecodingParams, rules: Rules) -> StopRules:
        return cls(rules.end_ids, _compiled(tuple(params.stop)), params.include_stop)


@lru_cache(maxsize=64)
def _compiled(stops: tuple[str, ...]) -> tuple[StopString, ...]:
    return tuple(map(StopString.compile, stops))


class Transcript:
    """`accept` a token, `take` what has become final, `fork` a copy."""

    def __init__(self, rules: StopRules, vocabulary: Vocabulary) -> None:
        self._rules = rules
        self._vocabulary = vocabulary
        self._matcher = StopMatcher(rules.strings)
        self._detokenizer = Detokenizer()
        self._ids: list[int] = []
        self._ends: list[int] = []  # for each token, how many bytes there are after it
        self._held = bytearray()  # bytes [n_released, n_bytes)
        self._n_released = 0
        self._n_reported = 0  # tokens
        self._is_closed = False

    @property
    def token_ids(self) -> Sequence[int]:
        return self._ids

    def accept(self, token_id: int) -> str | int | None:
        """Take the next token. Returns the stop string or id that ends the text here, if one does."""
        assert not self._is_closed, "the text has ended"
        if token_id in self._rules.ids:
            if self._rules.include:
                self._append(token_id, self._vocabulary.token_bytes(token_id))
            self._is_closed = True
            return token_id
        data = self._vocabulary.token_bytes(token_id)
        self._append(token_id, data)
        match = self._matcher.accept(data)
        if match is None:
            return None
        self._cut(match.end if self._rules.include else match.start)
        self._is_closed = True
        return match.stop

    def close(self) -> None:
        """The text ends here for another reason: nothing is held back any longer. Idempotent."""
        self._is_closed = True

    def take(self) -> tuple[str, tuple[int, ...]]:
        """Text and token ids that have become final since the last call."""
        n_final = len(self._held) - (0 if self._is_closed else self._matcher.n_held)
        text = self._detokenizer.accept(bytes(self._held[:n_final]), final=self._is_closed)
        del self._held[:n_final]
        self._n_released += n_final
        first = self._n_reported
        while self._n_reported < len(self._ids) and self._ends[self._n_reported] <= self._n_released:
            self._n_reported += 1
        return text, tuple(self._ids[first : self._n_reported])

    def fork(self) -> Transcript:
        copy = Transcript(self._rules, self._vocabulary)
        copy._matcher = self._matcher.fork()
        copy._detokenizer = self._detokenizer.fork()
        copy._ids = self._ids.copy()
        copy._ends = self._ends.copy()
        copy._held = self._held.copy()
        copy._n_released = self._n_released
        copy._n_reported = self._n_reported
        copy._is_closed = self._is_closed
        return copy

    def _append(self, token_id: int, data: bytes) -> None:
        self._ids.append(token_id)
        self._held += data
        self._ends.append(self._n_released + len(self._held))

    def _cut(self, n_bytes: int) -> None:
        """Keep the first n_bytes bytes, and the tokens that have a part in them."""
        del self._held[n_bytes - self._n_released :]
        starts = [0, *self._ends]
        while self._ids and self._ends[-1] > n_bytes and starts[len(self._ids) - 1] >= n_bytes:
            self._ids.pop()
            self._ends.pop()
        if self._ends:
            self._ends[-1] = min(self._ends[-1], n_bytes)
