"""Log-probabilities and traces, for the requests that ask, and what a stage learns of a token that a search
has chosen itself: added to what a search decided.

They are added after the search, so that no search need know about them, and to any token that one
may choose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from unspool.engine.detokenize import Vocabulary
from unspool.engine.share import Share
from unspool.engine.task import Task
from unspool.history.running import learns
from unspool.logits.logprobs import choice_logprobs, prompt_logprobs
from unspool.logits.pipeline import Passed, observed, walk
from unspool.types import F32, Chosen, Complete, Extend, Fork, Move, Processed, Row, Spell, TokenLogprobs


def wants_notes(task: Task) -> bool:
    """Whether a request asks for log-probabilities or a trace of what it writes, or has its search choose
    tokens that a stage learns from."""
    params = task.request.params
    return params.logprobs is not None or params.trace or (task.search.wants_candidates and learns(params))


def annotate(
    task: Task,
    rows: Sequence[Row],
    logits: F32,
    processed: Sequence[Processed],
    moves: Sequence[Move],
    vocabulary: Vocabulary,
    before: Sequence[Sequence[Passed]],
) -> tuple[Move, ...]:
    """The moves, with what is to be known about the token of each row of logits (R, V).

    `before` is, for each row, what was done to it before the pipeline got it.
    """

    def noting(chosen: Chosen, i: int) -> Chosen:
        return _note(chosen, rows[i], logits[i], processed[i], before[i], vocabulary)

    row_of = {row.branch: i for i, row in enumerate(rows)}
    noted: list[Move] = []
    for move in moves:
        if isinstance(move, Fork) and move.branch in row_of:
            row_of[move.child] = row_of[move.branch]
        if isinstance(move, Complete):
            noted.append(replace(move, token=noting(move.token, row_of[move.branch])))
            continue
        if isinstance(move, Extend) and move.tokens and move.branch in row_of:
            i = row_of.pop(move.branch)  # the tokens after the first have no row in this step
            move = Extend(move.branch, (noting(move.tokens[0], i), *move.tokens[1:]))
        noted.append(move)
    return tuple(noted)


def score_prompt(share: Share, logits: F32, vocabulary: Vocabulary) -> list[TokenLogprobs]:
    """Log-probabilities of the prompt's tokens that follow the rows of a share, from their logits (R, V)."""
    k, prompt_ids = share.task.request.params.prompt_logprobs, share.task.request.prompt_ids
    assert k is not None
    first = share.branch.n_cached + 1
    following = prompt_ids[
        first : first + share.n_rows
    ]  # the last row of all is about no token of the prompt
    spell = _spell(vocabulary)
    return [prompt_logprobs(z, i, k, spell) for z, i in zip(logits, following, strict=False)]


def _note(
    chosen: Chosen,
    row: Row,
    z: F32,
    processed: Processed,
    before: Sequence[Passed],
    vocabulary: Vocabulary,
) -> Chosen:
    candidates, params = processed.candidates, row.params
    assert candidates is not None, "a row that reports wants its candidates"
    spell = _spell(vocabulary)
    if learns(params) and chosen.observed is None:  # the fused pass keeps no steps: they are walked again
        passed = walk(z.astype(np.float64), row)
        chosen = replace(chosen, observed=observed(passed, row, chosen.token_id))
    if params.logprobs is not None and chosen.logprobs is None:
        found = choice_logprobs(z, candidates, chosen.token_id, params.logprobs, spell)
        chosen = replace(chosen, logprobs=found)
    if params.trace and chosen.trace is None:
        from unspool.logits.tracing import trace_of

        chosen = replace(chosen, trace=trace_of(z, row, candidates, chosen.token_id, spell, before))
    return chosen


def _spell(vocabulary: Vocabulary) -> Spell:
    return lambda token_id: (vocabulary.token_text(token_id), vocabulary.token_bytes(token_id))
