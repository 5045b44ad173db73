"""Rows of the same branches, asked for a token in one step after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from unspool import _native
from unspool.errors import UnspoolError
from unspool.history import History
from unspool.logits import fused, pipeline
from unspool.types import F32, Processed, Row

Choice = tuple[int, float | None]  # the token, and what `Chosen.observed` says


class _Changing(NamedTuple):
    """A row whose line has more in it that changes than its text and its counts."""

    at: int
    history: History
    asks: frozenset[str]


class StandingRows:
    """`choose` says what `pipeline.process` does, its slow twin. What the native pass has to be told of
    a row is made once; texts and counts it reads where they grow."""

    def __init__(self, rows: Sequence[Row], sampler: _native.Sampler | None = None) -> None:
        """Rows that want no candidates, whose texts are lists and whose histories go with them."""
        self._rows = rows
        self._sampler = sampler
        self._changing: list[_Changing] = []
        lines = []
        for at, row in enumerate(rows):
            assert isinstance(row.token_ids, list), "a text that grows"
            assert row.history is not None, "a history that grows with it"
            known = fused.compiled(row.params, row.rules)
            if known.changes:
                self._changing.append(_Changing(at, row.history, known.asks))
            tally = row.history.tally
            lines.append((known.program, row.seed, row.branch, row.n_prompt, row.token_ids, tally))
        self._lines = _native.StandingRows(lines)

    def choose(self, logits: F32) -> list[Choice]:
        """The token of each row of logits (R, V). They are float32, contiguous rows, and nobody else may read
        them meanwhile: they are written to and put back. TypeError for others.

        Raises the error of a row that has none: `pipeline.process` says what becomes of the others.
        """
        if not pipeline.IS_FUSED:
            return list(map(_choice, pipeline.process_by_stages(logits, self._rows)))
        changing = [(at, *fused.following(history, asks)) for at, history, asks in self._changing]
        sampler = self._sampler or fused.sampler()
        choices = sampler.choose(logits, self._lines, changing)
        if all(choices):
            return choices  # type: ignore[return-value]  # none of them is None
        return [self._by_stages(logits, i) if made is None else made for i, made in enumerate(choices)]

    def _by_stages(self, logits: F32, i: int) -> Choice:
        (made,) = pipeline.process_by_stages(logits[i : i + 1], self._rows[i : i + 1])
        return _choice(made)


def _choice(made: Processed | UnspoolError) -> Choice:
    if isinstance(made, UnspoolError):
        raise made
    return made.chosen.token_id, made.chosen.observed
