"""Log-probabilities and traces as plain values for JSON; what is no finite number there is null."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unspool.params import DecodingParams
    from unspool.search_tree import Considered, SearchTree
    from unspool.trace import CandidatePath, StageTrace, TokenTrace
    from unspool.types import Event, TokenLogprob, TokenLogprobs


def reports_of(events: Sequence[Event], params: DecodingParams) -> dict[str, Any]:
    """What a request asked to be told beside its text, by name; a name that was not asked for is left out."""
    reports: dict[str, Any] = {}
    if params.prompt_logprobs is not None:
        reports["prompt_logprobs"] = [_logprobs(e) for event in events for e in event.prompt_logprobs]
    if params.logprobs is not None:
        reports["logprobs"] = [_logprobs(e) for event in events for e in event.logprobs]
    if params.trace:
        reports["trace"] = [trace_dict(trace) for event in events for trace in event.trace]
        for event in events:
            if event.search_tree is not None:
                reports["search_tree"] = tree_dict(event.search_tree)
    return reports


def _logprobs(entry: TokenLogprobs) -> dict[str, Any]:
    told = _logprob(entry.token) | {"rank": entry.rank, "top": [_logprob(each) for each in entry.top]}
    if entry.token.logprob_final is not None:
        told["top_final"] = [_logprob(each) for each in entry.top_final]
    return told


def _logprob(token: TokenLogprob) -> dict[str, Any]:
    told = {
        "token_id": token.token_id,
        "text": token.text,
        "token_bytes": list(token.token_bytes),
        "logprob": _finite(token.logprob),
    }
    return told if token.logprob_final is None else told | {"logprob_final": _finite(token.logprob_final)}


def trace_dict(trace: TokenTrace) -> dict[str, Any]:
    """A whole trace; ids that a stage took out are pairs [first, last], which keeps long lists short."""
    return {
        "position": trace.position,
        "token_id": trace.chosen.token_id,
        "text": trace.chosen.text,
        "prob": trace.chosen.prob,
        "prob_final": trace.chosen.prob_final,
        "n_candidates": trace.n_candidates,
        "n_survivors": trace.n_survivors,
        "entropy_bits": trace.entropy_bits,
        "entropy_final_bits": trace.entropy_final_bits,
        "matches": trace.matches,
        "stages": [_stage(stage, trace.removed_ids(i)) for i, stage in enumerate(trace.stages)],
        "candidates": [_path(path) for path in trace.candidates],
    }


def tree_dict(tree: SearchTree) -> dict[str, Any]:
    """What a search did; branches are the names of its hypotheses."""
    return {
        "answers": [{"branch": branch, "score": _finite(score)} for branch, score in tree.answers],
        "steps": [
            {
                "n_tokens": step.n_tokens,
                "considered": [_considered(each) for each in step.considered],
                "given_up": list(step.given_up),
            }
            for step in tree.steps
        ],
        "n_untold": tree.n_untold,
    }


def _considered(each: Considered) -> dict[str, Any]:
    return {
        name: _finite(value) if isinstance(value, float) else value for name, value in asdict(each).items()
    }


def _stage(stage: StageTrace, removed_ids: Sequence[int]) -> dict[str, Any]:
    return {
        "stage": stage.stage,
        "n_before": stage.n_before,
        "n_after": stage.n_after,
        "removed_mass": stage.removed_mass,
        "entropy_before_bits": stage.entropy_before_bits,
        "entropy_after_bits": stage.entropy_after_bits,
        "temperature": stage.temperature,
        "removed": [{"token_id": r.token_id, "text": r.text, "prob": r.prob} for r in stage.removed],
        "moved": [
            {
                "token_id": m.token_id,
                "text": m.text,
                "prob_before": m.prob_before,
                "prob_after": m.prob_after,
                "logit_change": _finite(m.logit_change),
            }
            for m in stage.moved
        ],
        "removed_id_ranges": ranges(removed_ids),
    }


def _path(path: CandidatePath) -> dict[str, Any]:
    return {"token_id": path.token_id, "text": path.text, "probs": list(path.probs)}


def ranges(ids: Sequence[int]) -> list[list[int]]:
    """Ascending ids as [first, last] of each run without a gap."""
    found: list[list[int]] = []
    for token_id in ids:
        if found and found[-1][1] == token_id - 1:
            found[-1][1] = token_id
        else:
            found.append([token_id, token_id])
    return found


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
