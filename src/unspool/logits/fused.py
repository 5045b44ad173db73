"""The fused pass: masks, penalties, bias, temperature, truncation and choice of a row in one native call.

What the stages say one after the other over the whole vocabulary, csrc/sampling does in one or two passes
over float32 logits that are never rewritten, and in float64 from the first cut on. The two choose the same
token and keep the same candidates; where a threshold and a probability agree to the last bits of float64,
the order of a sum may decide. Whatever is no number, and a row without a candidate, is left to the stages.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from unspool import _native
from unspool.conventions import conventions_of
from unspool.history import History
from unspool.logits.orders import stages_for
from unspool.params import DecodingParams
from unspool.rules import Rules
from unspool.types import F32, Candidates, Chosen, Processed, Row

_MOST_THREADS: Final = 8
_MOST_PROGRAMS: Final = 1024


class Op(NamedTuple):
    """One line of a program; what the numbers mean is said beside each kind in csrc/sampling/program.h."""

    kind: int
    a: float = 0.0
    b: float = 0.0
    c: float = 0.0
    flag: bool = False
    ids: Sequence[int] = ()
    values: Sequence[float] = ()


_KINDS: Final = (
    "allow", "ban", "ban_next", "repetition", "frequency", "presence", "dry", "bias",
    "temperature", "dynatemp", "edt", "smoothing", "top_n_sigma", "top_k", "top_p", "min_p",
    "typical", "top_h", "epsilon", "eta", "top_a",
)  # fmt: skip
_KIND: Final = {name: number for number, name in enumerate(_KINDS)}
_FOLLOWING: Final = frozenset(("ban_next", "repetition", "frequency", "presence", "dry"))


def _tied_tops(p: DecodingParams) -> bool:
    return conventions_of(p).cutoffs_keep_tied_tops


# What each stage is as lines of a program. A stage that is missing here is left to Python, and with it
# every row that asks for it.
_LINES: Final[Mapping[str, Callable[[DecodingParams, Rules], Iterable[Op]]]] = {
    "temperature": lambda p, _: [Op(_KIND["temperature"], p.temperature)],
    "dynatemp": lambda p, _: [
        Op(_KIND["dynatemp"], p.dynatemp_min or 0.0, p.dynatemp_max or 0.0, p.dynatemp_exponent)
    ],
    "edt": lambda p, _: [Op(_KIND["edt"], p.temperature, p.edt_base, p.edt_theta)],
    "smoothing": lambda p, _: [Op(_KIND["smoothing"], p.smoothing_factor, p.smoothing_curve)],
    "top_n_sigma": lambda p, _: [Op(_KIND["top_n_sigma"], p.top_n_sigma)],
    "top_k": lambda p, _: [Op(_KIND["top_k"], p.top_k, flag=conventions_of(p).top_k_keeps_ties)],
    "top_p": lambda p, _: [Op(_KIND["top_p"], p.top_p)],
    "min_p": lambda p, _: [Op(_KIND["min_p"], math.log(p.min_p))],
    "typical": lambda p, _: [
        Op(
            _KIND["typical"],
            p.typical_p,
            float(conventions_of(p).typical_keeps_ties),
            flag=conventions_of(p).typical_passes_mass,
        )
    ],
    "top_h": lambda p, _: [Op(_KIND["top_h"], p.top_h, conventions_of(p).top_h_candidates or 0)],
    "epsilon": lambda p, _: [Op(_KIND["epsilon"], math.log(p.epsilon_cutoff), flag=_tied_tops(p))],
    "eta": lambda p, _: [Op(_KIND["eta"], math.log(p.eta_cutoff), flag=_tied_tops(p))],
    "top_a": lambda p, _: [Op(_KIND["top_a"], math.log(p.top_a), flag=_tied_tops(p))],
}


class Compiled(NamedTuple):
    """A request's program; None where a stage is left to Python."""

    params: DecodingParams
    rules: Rules
    program: _native.Program | None
    follows_text: bool  # whether a line asks for what the row's history knows


# By the identity of parameters and rules, which an entry keeps alive: hashing sixty fields for every row of
# every step would cost more than the pass itself.
_compiled: dict[tuple[int, int], Compiled] = {}


def compiled(params: DecodingParams, rules: Rules) -> Compiled:
    """The program of a request, made when it is first asked for."""
    key = (id(params), id(rules))
    known = _compiled.get(key)
    if known is None:
        while len(_compiled) >= _MOST_PROGRAMS:
            _compiled.pop(next(iter(_compiled)), None)
        known = _compiled[key] = _compile(params, rules)
    return known


def _compile(params: DecodingParams, rules: Rules) -> Compiled:
    stages = stages_for(params)
    if any(stage.name not in _LINES for stage in stages):
        return Compiled(params, rules, None, False)
    program = _native.Program(params.is_greedy)
    lines = [line for stage in stages for line in _LINES[stage.name](params, rules)]
    for line in lines:
        program.add(*line)
    return Compiled(params, rules, program, any(_KINDS[line.kind] in _FOLLOWING for line in lines))


@lru_cache(maxsize=8)
def sampler(isa: str = "") -> _native.Sampler:
    """The native sampler with its threads; `isa` is one of `_native.instruction_sets`, or empty for the widest."""
    return _native.Sampler(min(os.cpu_count() or 1, _MOST_THREADS), isa)


def process(
    logits: F32, rows: Sequence[Row], *, wants_candidates: bool = False, isa: str = ""
) -> list[Processed | None]:
    """What becomes of each row of logits (R, V); None where the stages have to say it.

    The logits are written to and put back while the call lasts, so nobody else may read them then.
    """
    if not (logits.flags.writeable and logits.dtype == np.float32 and logits.strides[1] == logits.itemsize):
        logits = np.array(logits, dtype=np.float32)
    lines = [_line(row, wants_candidates or row.wants_candidates) for row in rows]
    return [_processed(answer) for answer in sampler(isa).run(logits, lines)]


def _line(row: Row, wants_candidates: bool) -> _native.RowLine | None:
    known = compiled(row.params, row.rules)
    if known.program is None:
        return None
    history = row.history
    if history is None and known.follows_text:
        history = _history_of(row)
    counts = dry = banned = None
    running = 0.0
    if history is not None and known.follows_text:
        counts, dry, banned = history.penalty_counts(), history.dry_edits(), history.banned_next()
    return (
        known.program, row.seed, row.branch, row.position, running, counts, dry, banned, wants_candidates
    )  # fmt: skip


def _history_of(row: Row) -> History:
    history = History(row.params, row.rules, row.token_ids[: row.n_prompt])
    for token_id in row.token_ids[row.n_prompt :]:
        history.accept(token_id)
    return history


def _processed(answer: Any) -> Processed | None:
    if answer is None:
        return None
    token_id, observed, ids, z = answer
    return Processed(Chosen(token_id, observed), None if ids is None else Candidates(ids, z))
