"""How a step's logits pass through the stages, and what comes out for each row."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import numpy as np

from unspool import _native
from unspool.errors import UnspoolError
from unspool.light_dataclass import dataclass
from unspool.logits import fused
from unspool.logits.choose import choose, first_of_largest
from unspool.logits.masks import MASKS, apply_mask
from unspool.logits.orders import OBSERVERS, stages_for
from unspool.logits.stage import Logits, Named
from unspool.types import F32, Candidates, Chosen, Processed, Row

IS_FUSED: Final = os.environ.get("UNSPOOL_FUSED") != "0"


def process(
    logits: F32, rows: Sequence[Row], sampler: _native.Sampler | None = None
) -> list[Processed | UnspoolError]:
    """What becomes of each row of logits (R, V); an error is that row's alone, and the others go on.

    Rows take the fused pass, on the threads of `sampler` where one is given; what it leaves to the stages, an
    error above all, they say. UNSPOOL_FUSED=0 in the environment gives every row to the stages, to compare.
    """
    if not IS_FUSED:
        return process_by_stages(logits, rows)
    results: list[Processed | UnspoolError] = []
    for i, done in enumerate(fused.process(logits, rows, own=sampler)):
        if done is None:
            results += process_by_stages(logits[i : i + 1], rows[i : i + 1])
        else:
            results.append(done)
    return results


def process_by_stages(logits: F32, rows: Sequence[Row]) -> list[Processed | UnspoolError]:
    """`process`, one readable stage after the other in float64: the slow twin of the fused pass."""
    results: list[Processed | UnspoolError] = []
    for z, row in zip(logits, rows, strict=True):
        try:
            results.append(_process_row(z.astype(np.float64), row))
        except UnspoolError as error:
            results.append(error)
    return results


def _process_row(z: Logits, row: Row) -> Processed:
    first_of_largest(z, row)  # a NaN is refused here; a truncation would drop it and nobody would know
    passed = walk(z, row)
    z = passed[-1].after if passed else z
    token_id = choose(z, row)
    candidates = None
    if row.wants_candidates:
        ids = np.flatnonzero(z > -np.inf)
        candidates = Candidates(ids, z[ids].astype(np.float64))
    return Processed(Chosen(token_id, observed(passed, row, token_id)), candidates)


def observed(passed: Sequence[Passed], row: Row, token_id: int) -> float | None:
    """What the stage that learns, if there is one, makes of a chosen token: Chosen.observed."""
    for one in passed:
        if one.stage.name in OBSERVERS:
            return OBSERVERS[one.stage.name].observe(one.before, one.after, row, token_id)
    return None


@dataclass(frozen=True, slots=True)
class Passed:
    """What one stage, or a combination before the stages, did to a row: logits (V,) before and after it."""

    stage: Named
    before: Logits
    after: Logits


def walk(z: Logits, row: Row) -> list[Passed]:
    """Every stage that a row asks for, with the logits (V,) around it.

    Raises MaskConflict when the masks leave nothing.
    """
    passed = []
    for stage in stages_for(row.params):
        after = apply_mask(stage, z, row) if stage in MASKS else stage.apply(z[None], [row])[0]
        passed.append(Passed(stage, z, after))
        z = after
    return passed
