"""The fused pass: masks, penalties, bias, temperature, truncation and choice of a row in one native call.

What the stages say one after the other over the whole vocabulary, csrc/sampling does in one or two passes
over float32 logits that are never rewritten, and in float64 from the first cut on. The two choose the same
token and keep the same candidates; where a threshold and a probability agree to the last bits of float64,
the order of a sum may decide. Whatever is no number, and a row without a candidate, is left to the stages.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from functools import lru_cache, partial
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
    "allow", "ban", "ban_next", "min_tokens", "repetition", "frequency", "presence", "dry", "bias",
    "temperature", "dynatemp", "edt", "smoothing", "top_n_sigma", "top_k", "top_p", "min_p",
    "typical", "top_h", "epsilon", "eta", "top_a", "tfs", "xtc", "mirostat", "adaptive",
)  # fmt: skip
_KIND: Final = {name: number for number, name in enumerate(_KINDS)}
_COUNTED: Final = frozenset(("repetition", "frequency", "presence"))
_FOLLOWING: Final = _COUNTED | {"ban_next", "dry", "mirostat", "adaptive"}


def _bias(p: DecodingParams, rules: Rules) -> Op:
    ids, values = zip(*rules.bias, strict=True) if rules.bias else ((), ())
    return Op(_KIND["bias"], ids=ids, values=values)


def _xtc(p: DecodingParams, rules: Rules) -> Op:
    spared = rules.end_ids | rules.newline_ids if conventions_of(p).xtc_spares_ends else ()
    threshold = math.log(p.xtc_threshold) if p.xtc_threshold > 0 else -math.inf
    return Op(_KIND["xtc"], p.xtc_probability, threshold, ids=sorted(spared))


def _typical(p: DecodingParams, rules: Rules) -> Op:
    conventions = conventions_of(p)
    keeps_ties, passes_mass = conventions.typical_keeps_ties, conventions.typical_passes_mass
    return Op(_KIND["typical"], p.typical_p, float(keeps_ties), flag=passes_mass)


def _cutoff(kind: str, value: float, p: DecodingParams) -> Op:
    return Op(_KIND[kind], math.log(value), flag=conventions_of(p).cutoffs_keep_tied_tops)


# What each stage is as a line of a program.
_LINES: Final[Mapping[str, Callable[[DecodingParams, Rules], Op]]] = {
    "allowed_tokens": lambda p, _: Op(_KIND["allow"], ids=p.allowed_token_ids or ()),
    "banned_tokens": lambda _, rules: Op(_KIND["ban"], ids=sorted(rules.banned_ids)),
    "bad_words": lambda *_: Op(_KIND["ban_next"]),
    "no_repeat_ngram": lambda *_: Op(_KIND["ban_next"]),
    "min_tokens": lambda p, rules: Op(_KIND["min_tokens"], p.min_tokens, ids=sorted(rules.end_ids)),
    "repetition": lambda p, _: Op(_KIND["repetition"], p.repetition_penalty),
    "frequency": lambda p, _: Op(_KIND["frequency"], p.frequency_penalty),
    "presence": lambda p, _: Op(_KIND["presence"], p.presence_penalty),
    "dry": lambda *_: Op(_KIND["dry"]),
    "bias": _bias,
    "temperature": lambda p, _: Op(_KIND["temperature"], p.temperature),
    "dynatemp": lambda p, _: Op(
        _KIND["dynatemp"], p.dynatemp_min or 0.0, p.dynatemp_max or 0.0, p.dynatemp_exponent
    ),
    "edt": lambda p, _: Op(_KIND["edt"], p.temperature, p.edt_base, p.edt_theta),
    "smoothing": lambda p, _: Op(_KIND["smoothing"], p.smoothing_factor, p.smoothing_curve),
    "top_n_sigma": lambda p, _: Op(_KIND["top_n_sigma"], p.top_n_sigma),
    "top_k": lambda p, _: Op(_KIND["top_k"], p.top_k, flag=conventions_of(p).top_k_keeps_ties),
    "top_p": lambda p, _: Op(_KIND["top_p"], p.top_p),
    "min_p": lambda p, _: Op(_KIND["min_p"], math.log(p.min_p)),
    "typical": _typical,
    "top_h": lambda p, _: Op(_KIND["top_h"], p.top_h, conventions_of(p).top_h_candidates or 0),
    "epsilon": lambda p, _: _cutoff("epsilon", p.epsilon_cutoff, p),
    "eta": lambda p, _: _cutoff("eta", p.eta_cutoff, p),
    "top_a": lambda p, _: _cutoff("top_a", p.top_a, p),
    "tfs": lambda p, _: Op(_KIND["tfs"], p.tfs_z),
    "xtc": _xtc,
    "mirostat": lambda p, _: Op(
        _KIND["mirostat"], p.mirostat, flag=conventions_of(p).mirostat_surprise_after_cut
    ),
    "adaptive": lambda p, _: Op(_KIND["adaptive"], p.adaptive_target or 0.0),
}


class Compiled(NamedTuple):
    """A request's program."""

    params: DecodingParams
    rules: Rules
    program: _native.Program
    asks: frozenset[str]  # kinds that need what the row's history knows

    @property
    def changes(self) -> bool:
        """Whether a line has more in it that changes than a tally."""
        return not self.asks <= _COUNTED


# By the identity of parameters and rules, which an entry keeps alive: hashing sixty fields for every row of
# every step would cost more than the pass itself.
_compiled: dict[tuple[int, int], Compiled] = {}


def compiled(params: DecodingParams, rules: Rules) -> Compiled:
    """The program of a request, made when it is first asked for."""
    key = (id(params), id(rules))
    known = _compiled.get(key)
    if known is None:
        # Several engines, each with a thread, have this in common: another may be here, too.
        for oldest in [*_compiled][: max(len(_compiled) + 1 - _MOST_PROGRAMS, 0)]:
            _compiled.pop(oldest, None)
        known = _compiled[key] = _compile(params, rules)
    return known


def _compile(params: DecodingParams, rules: Rules) -> Compiled:
    program = _native.Program(params.is_greedy)
    kinds = set()
    for stage in stages_for(params):
        line = _LINES[stage.name](params, rules)
        program.add(*line)
        kinds.add(_KINDS[line.kind])
    return Compiled(params, rules, program, frozenset(kinds & _FOLLOWING))


@lru_cache(maxsize=8)
def sampler(isa: str = "") -> _native.Sampler:
    """The native sampler with its threads; `isa` names one of `_native.instruction_sets`, "" is the one that
    UNSPOOL_ISA forces or else the widest."""
    isa = isa or os.environ.get("UNSPOOL_ISA", "")
    return _native.Sampler(min(os.cpu_count() or 1, _MOST_THREADS), isa)


def process(
    logits: F32, rows: Sequence[Row], *, own: _native.Sampler | None = None, isa: str = ""
) -> list[Processed | None]:
    """What becomes of each row of logits (R, V); None where the stages have to say it.

    The rows are shared by the threads of `own`, or of a sampler that all have in common.

    The logits are written to and put back while the call lasts, so nobody else may read them then.
    """
    if not rows:  # a step that only reads a prompt
        return []
    if not (logits.flags.writeable and logits.dtype == np.float32 and logits.strides[1] == logits.itemsize):
        logits = np.array(logits, dtype=np.float32)
    answered = (own or sampler(isa)).run(logits, [_line(row) for row in rows])
    return [_processed(*each, isa) for each in zip(answered, logits, rows, strict=True)]


def _line(row: Row) -> _native.RowLine:
    known, n_tokens = compiled(row.params, row.rules), len(row.token_ids)
    tally = dry = banned = None
    running = 0.0
    if known.asks:
        history = row.history or _history_of(row)
        tally = history.tally
        running, dry, banned = following(history, known.asks)
    return (
        known.program, row.seed, row.branch, n_tokens, n_tokens - row.n_prompt, running,
        tally, dry, banned, row.wants_candidates and (row.n_candidates or True),
    )  # fmt: skip


def following(history: History, asks: Set[str]) -> _native.Following:
    """What a text's next token adds to a line, beside its tally."""
    return (
        0.0 if history.running is None else history.running.value,
        history.dry_edits() if "dry" in asks else None,
        history.banned_next() if "ban_next" in asks else None,
    )


def _history_of(row: Row) -> History:
    """For who calls a stage without one: made from the start, with what runs at its start."""
    history = History(row.params, row.rules, row.token_ids[: row.n_prompt])
    for token_id in row.token_ids[row.n_prompt :]:
        history.accept(token_id)
    return history


def _processed(answer: Any, z: F32, row: Row, isa: str) -> Processed | None:
    if answer is None:
        return None
    token_id, observed, *found = answer
    if len(found) == 2:  # no candidates
        return Processed(Chosen(token_id, observed))
    ids, logits, log_total = found
    is_part = row.n_candidates is not None and ids.size >= row.n_candidates
    whole = partial(_all_candidates, z, row, isa) if is_part else None
    return Processed(Chosen(token_id, observed), Candidates(ids, logits, log_total, whole))


def _all_candidates(z: F32, row: Row, isa: str) -> Candidates:
    """Of a row (V,) of which the first were told: the same once more, whose every number is the same."""
    (processed,) = process(z[None], [replace(row, n_candidates=None)], isa=isa)
    assert processed is not None, "it was worked out before"
    assert processed.candidates is not None, "a row that wants candidates gets them"
    return processed.candidates
