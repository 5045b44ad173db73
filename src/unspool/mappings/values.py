"""Values that several dialects spell the same way."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any, Final

from unspool.errors import BadRequest, brief
from unspool.mappings.dialect import ABSENT, LOST, Reading, Told
from unspool.param_checks import BIAS_LIMIT, Bias, Range

N_TOP_LOGPROBS: Final = 20  # of OpenAI's chat
LEAST_TOP_P: Final = 1e-9  # keeps one token, as 0 does elsewhere
WHOLE_TEXT: Final = 2**31 - 1  # a window that no text outgrows
A_CONSTRAINT: Final = "a constraint on the text, which is given to the request"
THE_PROMPT: Final = "it is the prompt's"
THE_REQUEST: Final = "it is the request's"
THE_SERVER: Final = "it is about how the answer is sent or accounted for"
_N_TOP: Final = Range(True, 0, N_TOP_LOGPROBS, "leave it out for the chosen token alone", optional=True)
THE_ENGINE: Final = "it is about how the model is run"


def is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def top_p_of(value: Any) -> Any:
    if is_number(value) and value == 0:
        return Told(LEAST_TOP_P, "0 keeps one token; the least of ours is above 0")
    return value


def off_from(limit: float, neutral: Any) -> Callable[[Any], Any]:
    """Values at or below the limit mean off."""

    def read(value: Any) -> Any:
        return neutral if is_number(value) and value <= limit else value

    return read


def off_above(limit: float, neutral: Any) -> Callable[[Any], Any]:
    """Values at or above the limit mean off."""

    def read(value: Any) -> Any:
        return neutral if is_number(value) and value >= limit else value

    return read


def unsigned_seed(value: Any) -> Any:
    """A negative seed is the same 64 bits without a sign."""
    if isinstance(value, numbers.Integral) and not isinstance(value, bool) and -(2**63) <= int(value) < 0:
        return Told(int(value) % 2**64, "a seed is at least 0: the same bits, unsigned")
    return value


def seed_of(value: Any) -> Any:
    """The same where -1 means a fresh one."""
    return Told(None, "-1 draws a fresh seed") if value == -1 and is_number(value) else unsigned_seed(value)


def unless_none(value: Any) -> Any:
    """For writing: None is said by saying nothing."""
    return ABSENT if value is None else value


def unless_empty(value: Any) -> Any:
    """For writing: a list, or nothing when there is nothing in it."""
    return list(value) if value else ABSENT


def bias_by_id(value: Any) -> Any:
    """{"123": 1.5} or {123: 1.5}: ids only, as text because JSON has no other keys."""
    by_id = _pairs_by_id(value)
    if any(is_number(bias) and bias <= -BIAS_LIMIT for _, bias in by_id):
        return Told(by_id, "at -100 a token is all but banned, as there; False bans it here")
    return by_id


def clamped_bias(value: Any) -> Any:
    """By id, and clamped to the limit as vLLM does, with a note when that changes anything."""
    by_id = _pairs_by_id(value)
    clamped = [
        (token, math.copysign(BIAS_LIMIT, bias) if is_number(bias) and abs(bias) > BIAS_LIMIT else bias)
        for token, bias in by_id
    ]
    return by_id if clamped == by_id else Told(clamped, f"clamped to ±{BIAS_LIMIT:g}, as there")


def _pairs_by_id(value: Any) -> list[tuple[int, Any]]:
    if not isinstance(value, Mapping):
        raise BadRequest(
            f"logit_bias must map token ids to numbers, got {brief(value)}", code="bad_logit_bias"
        )
    return [(_id_of(key), bias) for key, bias in value.items()]


def _id_of(key: Any) -> int:
    if isinstance(key, str) and key.isascii() and key.isdigit():
        return int(key)
    if isinstance(key, numbers.Integral) and not isinstance(key, bool):
        return int(key)
    raise BadRequest(
        f"logit_bias names the token {brief(key)}; here it is named by its id alone", code="bad_logit_bias"
    )


def bias_by_id_written(key: type) -> Callable[[tuple[Bias, ...]], Any]:
    """For writing: ids as `key`, and only numbers; a text or a ban is lost."""

    def write(biases: tuple[Bias, ...]) -> Any:
        if any(isinstance(token, str) or bias is False for token, bias in biases):
            return LOST
        return {key(token): bias for token, bias in biases} or ABSENT

    return write


def read_logprobs(reading: Reading) -> None:
    """Chat says `logprobs: true` and `top_logprobs: k`; text completions say `logprobs: k`."""
    logprobs, top = reading.take("logprobs"), reading.take("top_logprobs")
    if isinstance(logprobs, bool):
        n_top = _N_TOP.check("top_logprobs", top)
        if logprobs:
            reading.put("logprobs", True, "logprobs", n_top or 0)
        elif n_top:
            raise reading.refusal("top_logprobs", top, "it needs logprobs=True")
    elif logprobs is not None:
        reading.put("logprobs", logprobs, "logprobs", _N_TOP.check("logprobs", logprobs))
    elif top:
        raise reading.refusal("top_logprobs", top, "it needs logprobs=True")


def one_answer(reading: Reading, *names: str) -> None:
    """`n` and `best_of`: the request says how many answers it has; more are refused and not cut to one."""
    for name in names:
        value = reading.take(name)
        if value is None:
            continue
        if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value != 1:
            why = "several answers are asked for where the text is: LLM.generate(..., n=2); leave it out here"
            raise reading.refusal(name, value, why)
        reading.drop(name, value, "no decoding parameter: the request says how many answers it has")


def must_be_off(reading: Reading, off: Mapping[str, tuple[Any, str]]) -> None:
    """Names that have no counterpart: their neutral values are dropped, others refused with the reason."""
    for name, (neutral, why) in off.items():
        value = reading.take(name)
        if value is None:
            continue
        if value != neutral:
            raise reading.refusal(name, value, why)
        reading.drop(name, value, "off, and so of no effect")
