"""Checks of single parameter values: each returns the value normalised, or raises BadRequest.

A message names the parameter, the value, the range, and what to do instead.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, Final

from unspool.automaton import PatternError, compile_pattern
from unspool.errors import BadRequest, as_written, brief
from unspool.light_dataclass import dataclass

Bias = tuple[int | str, float | bool]  # a token id or a text, and what is added to it; False bans it
BIAS_LIMIT: Final = 100.0
WHOLE_LIMIT: Final = 2**53  # of counts and ids: whole numbers below it are exact in JSON and in a float64


@dataclass(frozen=True, slots=True)
class Range:
    """What a number may be. `low` is excluded when `open_low` is set; `high` None means no upper limit."""

    integer: bool
    low: float
    high: float | None
    way_out: str
    open_low: bool = False
    open_high: bool = False
    optional: bool = False  # None is a value

    def __str__(self) -> str:
        left = f"{'(' if self.open_low else '['}{self.low:g}"
        if self.high is None:
            text = f"{'above' if self.open_low else 'at least'} {self.low:g}"
        elif self.high == 2**64 - 1:
            text = f"in {left}, 2**64)"
        else:
            text = f"in {left}, {self.high:g}{')' if self.open_high else ']'}"
        return (
            f"{'a whole number' if self.integer else 'a number'} {text}{' or None' if self.optional else ''}"
        )

    def check(self, name: str, value: object) -> float | int | None:
        if value is None and self.optional:
            return None
        kind = numbers.Integral if self.integer else numbers.Real
        if isinstance(value, bool) or not isinstance(value, kind):
            raise self._refusal(name, value)
        given: Any = value
        above_low = given > self.low if self.open_low else given >= self.low  # False for NaN
        if self.high is not None:
            below_high = given < self.high if self.open_high else given <= self.high
        elif self.integer:
            below_high = True
            _refuse_beyond_limit(name, given)
        else:
            below_high = _is_finite(given)
        if not above_low or not below_high:
            raise self._refusal(name, value)
        return int(given) if self.integer else float(given)

    def _refusal(self, name: str, value: object) -> BadRequest:
        return BadRequest(
            f"{name} must be {as_written(str(self))}, got {brief(value)}; {as_written(self.way_out)}",
            code=f"bad_{name}",
        )


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:  # a whole number or a fraction out of a float's range
        return False


def _refuse_beyond_limit(name: str, value: Any) -> None:
    if value >= WHOLE_LIMIT:
        raise BadRequest(
            f"{name} must be below 2**53, got {brief(value)}; no text and no vocabulary is so long",
            code=f"bad_{name}",
        )


def _items(value: Any, not_lists: tuple[type, ...]) -> list[Any] | None:
    """What stands in a list, a set, an array or an iterator; None for what holds nothing."""
    if isinstance(value, not_lists):
        return None
    try:
        return list(value)
    except TypeError:  # an array of no dimensions has the method, but nothing to iterate over
        return None


def flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise BadRequest(
            f"{name} must be {as_written('True or False')}, got {brief(value)}", code=f"bad_{name}"
        )
    return value


def one_of(name: str, value: object, choices: Sequence[str]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise BadRequest(
            f"{name} must be one of {', '.join(map(repr, choices))}, got {brief(value)}", code=f"bad_{name}"
        )
    return value


# How many texts there may be, and of how many characters: each is spelled in tokens when a request comes, and
# looked for at every step.
MOST_TEXTS: Final[Mapping[str, tuple[int, int]]] = {"dry_breakers": (128, 64), "bad_words": (4096, 256)}


def texts(name: str, value: object) -> tuple[str, ...]:
    """Non-empty strings that UTF-8 can write; one alone stands for a list of it."""
    strings = [value] if isinstance(value, str) else _items(value, (bytes, Mapping))
    if strings is None:
        raise BadRequest(
            f"{name} must be a string or a list of strings, got {brief(value)}", code=f"bad_{name}"
        )
    checked = []
    for text in strings:
        if not isinstance(text, str) or not text:
            raise BadRequest(
                f"{name} holds {brief(text)}; each {name} must be a non-empty string"
                + (" (for ids use stop_token_ids)" if name == "stop" else ""),
                code=f"bad_{name}",
            )
        checked.append(_writable(name, text))
    if name in MOST_TEXTS:
        _check_room(name, checked)
    return tuple(checked)


def _check_room(name: str, strings: Sequence[str]) -> None:
    most, longest = MOST_TEXTS[name]
    if len(strings) > most:
        raise BadRequest(
            f"{name} holds {len(strings)} texts and {most} at most are taken; leave some out",
            code=f"bad_{name}",
        )
    for text in strings:
        if len(text) > longest:
            raise BadRequest(
                f"{name} holds {brief(text)} of {len(text)} characters and {longest} at most are taken; "
                "shorten it",
                code=f"bad_{name}",
            )


def patterns(name: str, value: object) -> tuple[str, ...]:
    """Regular expressions that can be followed while a text is written; one alone stands for a list."""
    checked = texts(name, value)
    for pattern in checked:
        try:
            compile_pattern(pattern)
        except PatternError as error:
            raise BadRequest(
                f"{name} holds {brief(pattern)}, which is no pattern to stop at: {error}; write it as for "
                "Python's re, or give plain text as stop",
                code=f"bad_{name}",
            ) from None
    return checked


def token_ids(name: str, value: object, way_out: str) -> tuple[int, ...]:
    """Ids of at least 0; one alone stands for a list of it. The engine checks the model's own limit."""
    is_one = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    ids = [value] if is_one else _items(value, (str, bytes, Mapping))
    if ids is None:
        raise BadRequest(f"{name} must be a list of token ids, got {brief(value)}", code=f"bad_{name}")
    checked = []
    for token_id in ids:
        if isinstance(token_id, bool) or not isinstance(token_id, numbers.Integral) or token_id < 0:
            raise BadRequest(
                f"{name} holds {brief(token_id)}; each must be an id of at least 0; {way_out}",
                code=f"bad_{name}",
            )
        _refuse_beyond_limit(name, token_id)
        checked.append(int(token_id))
    return tuple(checked)


def prompt(name: str, value: object) -> str | tuple[int, ...] | None:
    """A text that UTF-8 can write, or token ids; neither is empty, and None is none."""
    if value is None:
        return None
    if isinstance(value, str):
        given: str | tuple[int, ...] = _writable(name, value)
    else:
        given = token_ids(name, value, "or give it as text")
    if not given:
        raise BadRequest(f"{name} is empty; {as_written('None')} leaves it out", code=f"bad_{name}")
    return given


def biases(name: str, value: object) -> tuple[Bias, ...]:
    """A mapping, or pairs, from token ids or texts to a finite number within the limit, or to False."""
    pairs = _items(value.items() if isinstance(value, Mapping) else value, (str, bytes))
    if pairs is None:
        raise BadRequest(
            f"{name} must map token ids or texts to numbers, got {brief(value)}", code=f"bad_{name}"
        )
    checked: dict[int | str, float | bool] = {}
    for pair in pairs:
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            raise BadRequest(
                f"{name} holds {brief(pair)}, which is no pair of a token and a number", code=f"bad_{name}"
            )
        token, bias = pair
        key = _bias_token(name, token)
        if key in checked:
            raise BadRequest(f"{name} names {brief(key)} twice; keep one of them", code=f"bad_{name}")
        checked[key] = _bias_value(name, key, bias)
    return tuple(checked.items())


def _bias_token(name: str, token: Any) -> int | str:
    if isinstance(token, str) and token:
        return _writable(name, token)
    if isinstance(token, numbers.Integral) and not isinstance(token, bool) and int(token) >= 0:
        _refuse_beyond_limit(name, token)
        return int(token)
    raise BadRequest(
        f"{name} names the token {brief(token)}; name each by an id of at least 0 or by its text",
        code=f"bad_{name}",
    )


def _bias_value(name: str, key: int | str, bias: Any) -> float | bool:
    if bias is False:
        return False
    if isinstance(bias, numbers.Real) and not isinstance(bias, bool):
        given: Any = bias
        if abs(given) <= BIAS_LIMIT:  # before float(), which overflows on a whole number out of its range
            return float(given)
    raise BadRequest(
        f"{name} of {brief(key)} must be a number in [-{BIAS_LIMIT:g}, {BIAS_LIMIT:g}], got {brief(bias)}; "
        f"{as_written('False')} bans the token",
        code=f"bad_{name}",
    )


def _writable(name: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadRequest(
            f"{name} holds {brief(text)}, which has half a surrogate pair and cannot be written; remove it",
            code=f"bad_{name}",
        ) from None
    return text
