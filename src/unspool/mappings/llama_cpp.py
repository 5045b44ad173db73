"""llama.cpp's server: what its /completion takes.

Its defaults are not neutral (temperature 0.8, top_k 40, top_p 0.95, min_p 0.05), and are filled in. With
mirostat it runs bias and temperature only, so the rest is taken out, by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from unspool.mappings.dialect import OURS, Change, Dialect, Reading
from unspool.mappings.llama_cpp_fields import fields_with
from unspool.mappings.samplers import PRESET, read_samplers, written_samplers
from unspool.mappings.values import (
    A_CONSTRAINT,
    THE_ENGINE,
    THE_PROMPT,
    THE_REQUEST,
    THE_SERVER,
    is_number,
    must_be_off,
    one_answer,
    read_logprobs,
)
from unspool.params import DecodingParams


def _before(reading: Reading) -> None:
    one_answer(reading, "n_cmpl", "n")
    off = {
        "min_keep": (0, "every truncation keeps one token; use top_k for more"),
        "n_indent": (0, "it has no counterpart"),
    }
    must_be_off(reading, off)
    read_windows(reading)
    read_logprobs(reading)
    samplers, is_adaptive = reading.take("samplers"), False
    if samplers is not None:
        order, is_adaptive = read_samplers(samplers)
        reading.put("samplers", samplers, "order", order)
    if not is_adaptive and (target := reading.take("adaptive_target")) is not None:
        reading.drop("adaptive_target", target, "it runs there only where samplers names adaptive_p")


def read_windows(reading: Reading) -> None:
    """A window of 0 turns its penalties off, whatever their values."""
    for window, penalties in _WINDOWS.items():
        value = reading.given.get(window)
        if value != 0 or not is_number(value):
            continue
        reading.drop(window, reading.take(window), f"turns off {', '.join(penalties)}")
        for name in penalties:
            if (penalty := reading.take(name)) is not None:
                reading.drop(name, penalty, f"{window}=0 turns it off")
            reading.ours[_PENALTIES[name]] = OURS[_PENALTIES[name]]


_PENALTIES: Final[Mapping[str, str]] = {
    "repeat_penalty": "repetition_penalty",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "dry_multiplier": "dry_multiplier",
}


_WINDOWS: Final[Mapping[str, tuple[str, ...]]] = {
    "repeat_last_n": ("repeat_penalty", "frequency_penalty", "presence_penalty"),
    "dry_penalty_last_n": ("dry_multiplier",),
}


def after(reading: Reading) -> None:
    _read_dynamic_temperature(reading)
    acting = [name for name in ("xtc_probability", "typical_p") if name in reading.set_by]
    if reading.ours["temperature"] == 0 and acting:
        note = f"{' and '.join(acting)} can move the largest logit out there; here they are not used"
        reading.changes.append(Change("temperature", 0, "temperature", 0.0, note))
    if reading.ours.get("mirostat"):
        why = "mirostat runs with bias and temperature only there"
        reading.silence("order", why)
        for name in (*_TRUNCATING, *_PENALTIES.values(), "adaptive_target", "dynatemp_min", "dynatemp_max"):
            reading.silence(name, why)
    elif isinstance(order := reading.ours.get("order"), tuple):
        _leave_out(reading, order)


_TRUNCATING: Final = ("top_n_sigma", "top_k", "top_p", "min_p", "typical_p", "xtc_probability")


def _read_dynamic_temperature(reading: Reading) -> None:
    """Temperature plus or minus a range is a least and a largest one."""
    half = reading.ours.pop("dynatemp_max", None)  # the field holds the range until here
    if not half:
        return
    middle = reading.ours.get("temperature", 1.0)
    if middle == 0:
        reading.silence("dynatemp_max", "temperature=0 takes the largest logit")
        return
    low, high = max(0.0, middle - half), middle + half
    reading.ours |= {"temperature": 1.0, "dynatemp_min": low, "dynatemp_max": high}
    note = f"temperature {middle:g} plus or minus {half:g}"
    reading.changes = [change for change in reading.changes if change.our_name != "dynatemp_max"]
    reading.changes.append(Change("dynatemp_range", half, "dynatemp_max", high, note))


def _leave_out(reading: Reading, order: tuple[str, ...]) -> None:
    """What `samplers` does not name does not run there, whatever its value."""
    why = "samplers does not name it"
    for stages, names in _OF_STAGE.items():
        if stages not in order:
            for name in names:
                reading.silence(name, why)
    if "temperature" not in order:
        reading.silence("temperature", why)


_OF_STAGE: Final[Mapping[str, tuple[str, ...]]] = {
    "penalties": ("repetition_penalty", "frequency_penalty", "presence_penalty"),
    "dry": ("dry_multiplier",),
    "typical": ("typical_p",),
    "xtc": ("xtc_probability",),
    "temperature": ("dynatemp_min", "dynatemp_max"),
    **{name: (name,) for name in ("top_n_sigma", "top_k", "top_p", "min_p")},
}


def _finish(params: DecodingParams, theirs: dict[str, Any], lost: list[Change]) -> None:
    if params.dynatemp_min is not None and params.dynatemp_max is not None:
        low, high = params.dynatemp_min, params.dynatemp_max
        middle, half = (low + high) / 2, (high - low) / 2
        if params.is_greedy or half == 0 or (middle - half, middle + half) != (low, high):
            lost.append(_lost(params, "dynatemp_min", "has a middle and a range, and none at temperature 0"))
        else:
            theirs |= {"temperature": middle, "dynatemp_range": half}
    if params.banned_token_ids:
        theirs["logit_bias"] += [[token_id, False] for token_id in params.banned_token_ids]
        lost.append(_lost(params, "banned_token_ids", "has a logit_bias of false for it, as written"))
    finish_penalties(params, lost)
    is_adaptive = params.adaptive_target is not None
    if params.order != PRESET or is_adaptive:
        samplers = None if params.mirostat else written_samplers(params.order, is_adaptive=is_adaptive)
        if samplers is None:
            lost.append(_lost(params, "order", "cannot be told this order"))
            samplers = written_samplers(PRESET, is_adaptive=True) if is_adaptive else None
        if samplers is not None:  # unnamed, adaptive-p would not run there
            theirs["samplers"] = samplers


def finish_penalties(params: DecodingParams, lost: list[Change]) -> None:
    if params.penalty_scope not in ("default", "all"):
        lost.append(_lost(params, "penalty_scope", "penalises prompt and answer alike"))
    if params.mirostat:
        for name in ("dynatemp_min", *_PENALTIES.values()):
            if getattr(params, name) != OURS[name]:
                lost.append(_lost(params, name, "leaves it out when mirostat runs"))


def _lost(params: DecodingParams, name: str, why: str) -> Change:
    return Change(None, None, name, getattr(params, name), f"llama.cpp {why}")


ELSEWHERE: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("prompt", "messages", "input_prefix", "input_suffix", "n_keep", "n_discard"), THE_PROMPT
    ),
    **dict.fromkeys(("model", "id_slot", "lora", "n_ctx", "cache_prompt", "n_cache_reuse"), THE_ENGINE),
    **dict.fromkeys(("stream", "timings_per_token", "return_tokens", "response_fields"), THE_SERVER),
    **dict.fromkeys(("post_sampling_probs", "return_progress"), THE_SERVER),
    **dict.fromkeys(("user", "backend_sampling"), THE_REQUEST),
    **dict.fromkeys(("grammar", "json_schema", "grammar_lazy", "response_format", "tools"), A_CONSTRAINT),
}

LLAMA_CPP: Final = Dialect(
    name="llama.cpp",
    order="llama.cpp",
    fields=fields_with(top_p=0.95, min_p=0.05, repeat_penalty=1.0),
    elsewhere=ELSEWHERE,
    before=_before,
    before_names=("samplers", "n_cmpl", "n", "min_keep", "n_indent", "logprobs", "top_logprobs"),
    after=after,
    finish=_finish,
    finish_names={
        "dynatemp_min": "dynatemp_range",
        "dynatemp_max": "dynatemp_range",
        "order": "samplers",
        "penalty_scope": "",
        "banned_token_ids": "logit_bias",
    },
)
