"""What the stages do to one row, step by step, for a person to read.

The walk runs the readable stages once more, beside the pass that chose: tokens are those of that pass, and
are the same whether a trace is asked for or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from unspool.logits.distribution import probs, survivors
from unspool.logits.logprobs import likeliest
from unspool.logits.pipeline import Passed, walk
from unspool.logits.scaling import Scaling
from unspool.logits.stage import Logits
from unspool.trace import NEVER_ALIVE, SURVIVED, CandidatePath, Moved, Removed, StageTrace, TokenTrace
from unspool.types import F32, F64, Candidates, Ids, Row, Spell

N_TOP: Final = 10  # candidates whose way through the stages is told, by probability at first and at last
N_FEW: Final = 5  # removed and moved candidates that are told with their probabilities


def trace_of(
    z: F32,
    row: Row,
    candidates: Candidates,
    token_id: int,
    spell: Spell,
    before: Sequence[Passed] = (),
) -> TokenTrace:
    """The way from the model's logits to the token chosen among the candidates.

    z (V,) is what the pipeline got: the model's own, or what the combinations `before` made of them.
    """
    whole: F64 = z.astype(np.float64)
    passed = [*before, *walk(whole, row)]
    start = before[0].before if before else whole
    assert len(passed) < NEVER_ALIVE
    logits = [start, *(p.after for p in passed)]
    steps = [_probs(each) for each in logits]  # n_stages + 1 times (V,)
    fates = np.full(start.size, SURVIVED, dtype=np.uint8)
    fates[start == -np.inf] = NEVER_ALIVE
    for i, p in enumerate(passed):
        fates[_gone(p)] = i

    def path(i: int) -> CandidatePath:
        return CandidatePath(i, spell(i)[0], tuple(float(each[i]) for each in steps))

    shown = {*likeliest(steps[0], N_TOP).tolist(), *_alive(steps[-1], N_TOP).tolist(), token_id}
    left = survivors(logits[-1])
    return TokenTrace(
        position=row.position,
        chosen=path(token_id),
        n_candidates=survivors(start).size,
        n_survivors=left.size,
        entropy_bits=entropy_bits(steps[0]),
        entropy_final_bits=entropy_bits(steps[-1]),
        stages=tuple(_stage(p, row, steps[i], steps[i + 1], spell) for i, p in enumerate(passed)),
        candidates=tuple(map(path, sorted(shown, key=lambda i: (-steps[0][i], i)))),
        matches=np.array_equal(left, candidates.token_ids),
        fates=fates.tobytes(),
    )


def entropy_bits(p: F64) -> float:
    """-sum p log2 p of probabilities (n,)."""
    p = p[p > 0]
    return float(-(p * np.log2(p)).sum()) + 0.0  # no -0


def _stage(p: Passed, row: Row, before: F64, after: F64, spell: Spell) -> StageTrace:
    """`before` and `after` are the probabilities (V,) around it."""
    gone = np.flatnonzero(_gone(p))
    return StageTrace(
        stage=p.stage.name,
        n_before=int(np.count_nonzero(p.before > -np.inf)),
        n_after=int(np.count_nonzero(p.after > -np.inf)),
        removed_mass=float(before[gone].sum()),
        entropy_before_bits=entropy_bits(before),
        entropy_after_bits=entropy_bits(after),
        temperature=_temperature(p, row),
        removed=tuple(
            Removed(int(i), spell(int(i))[0], float(before[i])) for i in gone[likeliest(before[gone], N_FEW)]
        ),
        moved=_moved(p, before, after, spell),
    )


def _moved(p: Passed, before: F64, after: F64, spell: Spell) -> tuple[Moved, ...]:
    changed = np.flatnonzero((p.after > -np.inf) & (p.after != p.before))
    change = np.abs(after[changed] - before[changed])
    return tuple(
        Moved(i, spell(i)[0], float(before[i]), float(after[i]), float(p.after[i] - p.before[i]))
        for i in changed[likeliest(change, N_FEW)].tolist()
    )


def _temperature(p: Passed, row: Row) -> float | None:
    if not isinstance(p.stage, Scaling):
        return None
    return p.stage.temperature_of(p.before[survivors(p.before)].astype(np.float64), row.params)


def _probs(z: Logits) -> F64:
    """Probabilities (V,) of a row, 0 for those that are not alive."""
    ids = survivors(z)
    result = np.zeros(z.size)
    result[ids] = probs(z[ids])
    return result


def _alive(p: F64, k: int) -> Ids:
    """The k likeliest of probabilities (V,) that have one at all."""
    ids = likeliest(p, k)
    return ids[p[ids] > 0]


def _gone(p: Passed) -> npt.NDArray[np.bool_]:
    gone: npt.NDArray[np.bool_] = (p.before > -np.inf) & (p.after == -np.inf)
    return gone
