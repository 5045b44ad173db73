"""What the stages do to one row, step by step, for a person to read.

The walk runs the readable stages once more, beside the pass that chose: tokens are those of that pass, and
are the same whether a trace is asked for or not.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from unspool.logits.cut import softmax
from unspool.logits.logprobs import likeliest
from unspool.logits.pipeline import Passed, walk
from unspool.logits.stage import Logits
from unspool.trace import NEVER_ALIVE, SURVIVED, CandidatePath, Moved, Removed, StageTrace, TokenTrace
from unspool.types import F32, Candidates, Ids, Row, Spell

N_TOP: Final = 10  # candidates whose way through the stages is told, by probability at first and at last
N_FEW: Final = 5  # removed and moved candidates that are told with their probabilities

_ONE_DIVISOR: Final = ("temperature", "dynatemp", "edt")  # stages that divide all logits by one T


def trace_of(z: F32, row: Row, candidates: Candidates, token_id: int, spell: Spell) -> TokenTrace:
    """The way from the model's logits z (V,) to the token chosen among the candidates."""
    start: Logits = z.astype(np.float64)
    passed = walk(start, row)
    assert len(passed) < NEVER_ALIVE
    logits = [start, *(p.after for p in passed)]
    probs = [softmax(each) for each in logits]  # n_stages + 1 times (V,)
    fates = np.full(start.size, SURVIVED, dtype=np.uint8)
    fates[start == -np.inf] = NEVER_ALIVE
    for i, p in enumerate(passed):
        fates[_gone(p)] = i

    def path(i: int) -> CandidatePath:
        return CandidatePath(i, spell(i)[0], tuple(float(each[i]) for each in probs))

    shown = {*likeliest(probs[0], N_TOP).tolist(), *_alive(probs[-1], N_TOP).tolist(), token_id}
    survivors = np.flatnonzero(logits[-1] > -np.inf)
    return TokenTrace(
        position=row.position,
        chosen=path(token_id),
        n_candidates=int(np.count_nonzero(start > -np.inf)),
        n_survivors=survivors.size,
        entropy_bits=entropy_bits(probs[0]),
        entropy_final_bits=entropy_bits(probs[-1]),
        stages=tuple(_stage(p, probs[i], probs[i + 1], spell) for i, p in enumerate(passed)),
        candidates=tuple(map(path, sorted(shown, key=lambda i: (-probs[0][i], i)))),
        matches=np.array_equal(survivors, candidates.token_ids),
        fates=fates.tobytes(),
    )


def entropy_bits(probs: Logits) -> float:
    """-sum p log2 p of probs (n,)."""
    p = probs[probs > 0]
    return float(-(p * np.log2(p)).sum()) + 0.0  # no -0


def _stage(p: Passed, before: Logits, after: Logits, spell: Spell) -> StageTrace:
    """`before` and `after` are the probabilities (V,) around it."""
    gone = np.flatnonzero(_gone(p))
    return StageTrace(
        stage=p.stage.name,
        n_before=int(np.count_nonzero(p.before > -np.inf)),
        n_after=int(np.count_nonzero(p.after > -np.inf)),
        removed_mass=float(before[gone].sum()),
        entropy_before_bits=entropy_bits(before),
        entropy_after_bits=entropy_bits(after),
        temperature=_divisor(p) if p.stage.name in _ONE_DIVISOR else None,
        removed=tuple(
            Removed(int(i), spell(int(i))[0], float(before[i])) for i in gone[likeliest(before[gone], N_FEW)]
        ),
        moved=_moved(p, before, after, spell),
    )


def _moved(p: Passed, before: Logits, after: Logits, spell: Spell) -> tuple[Moved, ...]:
    changed = np.flatnonzero((p.after > -np.inf) & (p.after != p.before))
    change = np.abs(after[changed] - before[changed])
    return tuple(
        Moved(i, spell(i)[0], float(before[i]), float(after[i]), float(p.after[i] - p.before[i]))
        for i in changed[likeliest(change, N_FEW)].tolist()
    )


def _divisor(p: Passed) -> float | None:
    """T from the widest gap between two logits, before and after; None where all of them are equal."""
    alive = np.flatnonzero(p.after > -np.inf)
    least = alive[p.after[alive].argmin()]
    gap_after = float(p.after.max() - p.after[least])
    return float(p.before.max() - p.before[least]) / gap_after if gap_after > 0 else None


def _alive(probs: Logits, k: int) -> Ids:
    """The k likeliest that have a probability at all."""
    ids = likeliest(probs, k)
    return ids[probs[ids] > 0]


def _gone(p: Passed) -> npt.NDArray[np.bool_]:
    gone: npt.NDArray[np.bool_] = (p.before > -np.inf) & (p.after == -np.inf)
    return gone
