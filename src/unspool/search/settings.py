"""Checks of what searches are told. Each raises BadRequest with the value, the range and the way out."""

from __future__ import annotations

import numbers
from typing import Any, Final, Literal, TypeAlias

from unspool.errors import BadRequest, ParameterConflict, as_written, brief, named
from unspool.param_conflicts import STAGES, TEMPERATURES, TRUNCATION, is_on
from unspool.params import DecodingParams

EarlyStopping: TypeAlias = bool | Literal["never", "exact"]
_DRAWING_STAGES: Final = (*TEMPERATURES, *TRUNCATION, "mirostat", "adaptive")
DRAWING: Final = frozenset(STAGES[stage][0] for stage in _DRAWING_STAGES)  # only a draw gives them a meaning


def check_whole(name: str, value: Any, most: int, way_out: str) -> None:
    """A whole number in [1, most]."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or not 1 <= int(value) <= most:
        raise BadRequest(
            f"{name} must be a whole number in [1, {most}], got {brief(value)}; {way_out}", code=f"bad_{name}"
        )


def check_number(name: str, value: Any, low: float, high: float, way_out: str) -> None:
    """A number in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not low <= float(value) <= high:
        raise BadRequest(
            f"{name} must be a number in [{low:g}, {high:g}], got {brief(value)}; {way_out}",
            code=f"bad_{name}",
        )


def check_early_stopping(value: Any) -> None:
    if not isinstance(value, bool) and value not in ("never", "exact"):
        raise BadRequest(
            f"early_stopping must be {as_written('True, False')}, 'never' or 'exact', got {brief(value)}; "
            "'exact' never loses an answer",
            code="bad_early_stopping",
        )


def refuse_drawing(params: DecodingParams, what: str) -> None:
    """Refuse parameters that only a draw gives a meaning to, and a seed."""
    on = [STAGES[stage][0] for stage in _DRAWING_STAGES if is_on(stage, params) and not params.is_greedy]
    if params.seed is not None:
        on.append("seed")
    if on:
        raise ParameterConflict(
            f"{on[0]}={brief(getattr(params, on[0]))} has no meaning in {what}, which draws nothing",
            (on[0],),
            way_out="leave it out, or take a search that draws, as "
            f"{named('Sample')} and {named('BeamSample')} do",
        )
