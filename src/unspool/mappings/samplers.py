"""llama.cpp's `samplers`: an order as a list of names or as letters, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from unspool.errors import BadRequest, brief

# Their names to our stage or group, in their default order; then the letters of their command line.
_NAMES: Final[Mapping[str, str]] = {
    "penalties": "penalties",
    "dry": "dry",
    "top_n_sigma": "top_n_sigma",
    "top_k": "top_k",
    "typ_p": "typical",
    "top_p": "top_p",
    "min_p": "min_p",
    "xtc": "xtc",
    "temperature": "temperature",
    "adaptive_p": "adaptive",
}
_OTHER_NAMES: Final[Mapping[str, str]] = {
    "typical_p": "typical",
    "typical": "typical",
    "typ": "typical",
    "nucleus": "top_p",
    "temp": "temperature",
}
_LETTERS: Final[Mapping[str, str]] = {
    "e": "penalties",
    "d": "dry",
    "s": "top_n_sigma",
    "k": "top_k",
    "y": "typical",
    "p": "top_p",
    "m": "min_p",
    "x": "xtc",
    "t": "temperature",
    "a": "adaptive",
}
_DEFAULT: Final = tuple(stage for stage in _NAMES.values() if stage != "adaptive")
_STAGES: Final = {stage: name for name, stage in _NAMES.items()}
PRESET: Final = "llama.cpp"


def read_samplers(samplers: object) -> tuple[str | tuple[str, ...], bool]:
    """The order that llama.cpp would run, bias first and adaptive-p last, and whether adaptive-p runs."""
    if isinstance(samplers, str):
        stages = [_stage(letter, _LETTERS) for letter in samplers.replace(";", "")]
    elif isinstance(samplers, Sequence) and not isinstance(samplers, bytes):
        stages = [
            _stage(str(name).lower().replace("-", "_"), {**_NAMES, **_OTHER_NAMES}) for name in samplers
        ]
    else:
        raise BadRequest(
            f"samplers must be a list of names or a string of letters, got {brief(samplers)}",
            code="bad_samplers",
        )
    for stage in stages:
        if stages.count(stage) > 1:
            raise BadRequest(
                f"samplers names {_STAGES[stage]!r} twice; here a stage runs once, keep one of them",
                code="bad_samplers",
            )
    ordered = tuple(stage for stage in stages if stage != "adaptive")
    order = PRESET if ordered == _DEFAULT else (PRESET, "bias", *ordered, "adaptive")
    return order, "adaptive" in stages


def _stage(name: str, known: Mapping[str, str]) -> str:
    if name in known:
        return known[name]
    raise BadRequest(
        f"samplers holds {brief(name)}; known are {', '.join(known)}"
        + ("; infill has no counterpart" if name in ("i", "infill") else ""),
        code="bad_samplers",
    )


def written_samplers(order: str | Sequence[str], *, is_adaptive: bool) -> list[str] | None:
    """Their list for an order of ours; None when it says something that theirs cannot."""
    last = [_STAGES["adaptive"]] * is_adaptive
    if order == PRESET:
        return [_STAGES[stage] for stage in _DEFAULT] + last
    if isinstance(order, str) or tuple(order[:2]) != (PRESET, "bias"):
        return None
    stages = [stage for stage in order[2:] if stage != "adaptive"]
    if order[-1] != "adaptive" or any(stage not in _STAGES for stage in stages):
        return None
    return [_STAGES[stage] for stage in stages] + last
