"""The names and values of llama.cpp's sampling options, which ollama shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from unspool.mappings.dialect import ABSENT, LOST, Field, Told
from unspool.mappings.values import (
    WHOLE_TEXT,
    is_number,
    off_above,
    off_from,
    seed_of,
    top_p_of,
    unless_none,
)

_FRESH_SEED: Final = 2**32 - 1
_NEVER_ENDING: Final = "as long as the context has room; there the context is shifted and goes on"


def _n_predict(value: Any) -> Any:
    return Told(None, _NEVER_ENDING) if value in (-1, -2) and is_number(value) else value


def _temperature(value: Any) -> Any:
    return Told(0.0, "below 0 is greedy, as 0 is") if is_number(value) and value < 0 else value


def _seed(value: Any) -> Any:
    return Told(None, "2**32 - 1 draws a fresh seed") if value == _FRESH_SEED else seed_of(value)


def _milliseconds(value: Any) -> Any:
    return value / 1000 if is_number(value) else value


def _milliseconds_written(seconds: float | None) -> Any:
    if seconds is None:
        return ABSENT
    whole = round(seconds * 1000)
    return whole if whole > 0 and whole / 1000 == seconds else LOST


def _n_probs_written(n_top: int | None) -> Any:
    return LOST if n_top == 0 else unless_none(n_top)  # 0 turns them off there


def _window(value: Any) -> Any:
    return Told(WHOLE_TEXT, "-1 is the whole context") if value == -1 and is_number(value) else value


def _window_written(window: int | None) -> Any:
    return -1 if window is not None and window >= WHOLE_TEXT else unless_none(window)


def _is_id(key: object) -> bool:
    return isinstance(key, str) and key.isascii() and key.isdigit()


def _bias(value: Any) -> Any:
    """[[id or text, number or false], ...], or a mapping of the same."""
    if isinstance(value, Mapping):
        return [(int(key) if _is_id(key) else key, bias) for key, bias in value.items()]
    return value


def fields_with(*, top_p: float, min_p: float, repeat_penalty: float) -> tuple[Field, ...]:
    """The fields of llama.cpp and of what is built on it, with their defaults."""
    return (
        Field("temperature", "temperature", default=0.8, read=_temperature, aliases=("temp",)),
        Field("dynatemp_range", "dynatemp_max", read=off_from(0, None), write=lambda _: ABSENT),
        Field("dynatemp_exponent", "dynatemp_exponent"),
        Field("top_k", "top_k", default=40, read=off_from(0, 0)),
        Field("top_p", "top_p", default=top_p, read=lambda value: top_p_of(off_above(1, 1.0)(value))),
        Field("min_p", "min_p", default=min_p, read=off_from(0, 0.0)),
        Field("top_n_sigma", "top_n_sigma", read=off_from(0, 0.0)),
        Field("typical_p", "typical_p", read=off_above(1, 1.0), aliases=("typ_p",)),
        Field("xtc_probability", "xtc_probability"),
        Field("xtc_threshold", "xtc_threshold"),
        Field("repeat_penalty", "repetition_penalty", default=repeat_penalty),
        Field("frequency_penalty", "frequency_penalty"),
        Field("presence_penalty", "presence_penalty"),
        Field("repeat_last_n", "penalty_window", read=_window, write=_window_written),
        Field("dry_multiplier", "dry_multiplier"),
        Field("dry_base", "dry_base"),
        Field("dry_allowed_length", "dry_allowed_length"),
        Field("dry_penalty_last_n", "dry_window", read=_window, write=_window_written),
        Field("dry_sequence_breakers", "dry_breakers", write=list),
        Field("mirostat", "mirostat"),
        Field("mirostat_tau", "mirostat_tau"),
        Field("mirostat_eta", "mirostat_eta"),
        Field("adaptive_target", "adaptive_target", read=off_from(-1e-300, None), write=unless_none),
        Field("adaptive_decay", "adaptive_decay"),
        Field("seed", "seed", read=_seed, write=unless_none),
        Field("stop", "stop", write=list),
        Field(
            "n_predict",
            "max_tokens",
            default=None,
            read=_n_predict,
            write=lambda limit: -1 if limit is None else limit,
            aliases=("num_predict", "max_tokens"),
        ),
        Field("logit_bias", "logit_bias", read=_bias, write=lambda pairs: [list(pair) for pair in pairs]),
        Field("ignore_eos", "ignore_eos"),
        Field("n_probs", "logprobs", read=off_from(0, None), write=_n_probs_written),
        Field(
            "t_max_predict_ms",
            "deadline_s",
            read=_milliseconds,
            write=_milliseconds_written,
            note="there it counts from the first token, and stops at a line's end",
        ),
    )
