"""DecodingParams: every knob of decoding, its range, its meaning, and the way out when it is wrong.

The canonical meaning of each is fixed in docs/decoding.md. Nothing is clamped and nothing is ignored: a
value out of range is a BadRequest that names the field, the value, the range and what to do instead.
"""

from __future__ import annotations

import difflib
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from unspool.errors import BadRequest

DEFAULT_MAX_TOKENS: Final = 512


@dataclass(frozen=True, slots=True)
class Range:
    """What a number may be. `low` is excluded when `open_low` is set; `high` None means no upper limit."""

    integer: bool
    low: float
    high: float | None
    way_out: str
    open_low: bool = False
    optional: bool = False  # None is a value

    def __str__(self) -> str:
        left = f"{'(' if self.open_low else '['}{self.low:g}"
        if self.high is None:
            text = f"at least {self.low:g}"
        elif self.high == 2**64 - 1:
            text = f"in {left}, 2**64)"
        else:
            text = f"in {left}, {self.high:g}]"
        return (
            f"{'a whole number' if self.integer else 'a number'} {text}{' or None' if self.optional else ''}"
        )


RANGES: Final[Mapping[str, Range]] = {
    "temperature": Range(False, 0, 100, "0 is greedy, 1 leaves the model's distribution as it is"),
    "top_k": Range(True, 0, None, "0 turns it off"),
    "top_p": Range(False, 0, 1, "1 turns it off; for greedy decoding set temperature=0", open_low=True),
    "min_p": Range(False, 0, 1, "0 turns it off"),
    "seed": Range(True, 0, 2**64 - 1, "None draws a fresh seed and reports it", optional=True),
    "max_tokens": Range(
        True,
        1,
        None,
        "None writes to the end of the context; to count a prompt's tokens use LLM.tokenize",
        optional=True,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingParams:
    """How to turn logits into text. Immutable and hashable; `replace` gives a changed copy.

    temperature     logits are divided by it; 0 takes the largest logit and needs no seed. [0, 100]
    top_k           keep the k largest logits, exactly k; 0 is off. (Fan et al. 2018, arXiv 1805.04833)
    top_p           keep the fewest tokens, largest first, whose mass reaches p; 1 is off. (0, 1]
                    (Holtzman et al. 2020, arXiv 1904.09751)
    min_p           keep tokens with at least this share of the largest probability; 0 is off. [0, 1]
                    (Nguyen et al. 2024, arXiv 2407.01082)
    seed            the same seed repeats the same tokens; None draws one and reports it. [0, 2**64)
    max_tokens      tokens to write at most; None writes to the end of the context. At least 1
    stop            a string or several: writing ends where the first of them is complete
    stop_token_ids  token ids that end the writing, beside the model's own end-of-sequence ids
    ignore_eos      write on past the model's end-of-sequence ids
    include_stop    keep the stop string, or the id that ended the writing, in the result
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    max_tokens: int | None = DEFAULT_MAX_TOKENS
    stop: Sequence[str] = ()
    stop_token_ids: Sequence[int] = ()
    ignore_eos: bool = False
    include_stop: bool = False

    def __post_init__(self) -> None:
        for name, allowed in RANGES.items():
            self._set(name, _number(name, getattr(self, name), allowed))
        self._set("stop", _stop_strings(self.stop))
        self._set("stop_token_ids", _token_ids(self.stop_token_ids))
        for name in ("ignore_eos", "include_stop"):
            if not isinstance(getattr(self, name), bool):
                raise BadRequest(
                    f"{name} must be True or False, got {getattr(self, name)!r}", code=f"bad_{name}"
                )

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)  # normalised once, before anyone else sees the object

    @property
    def is_greedy(self) -> bool:
        """Whether the largest logit is taken and no random number is drawn."""
        return self.temperature == 0

    def unused(self) -> tuple[str, ...]:
        """Parameters that were given but cannot change a token: seed and truncation at temperature 0."""
        if not self.is_greedy:
            return ()
        given = {name: getattr(self, name) for name in ("top_k", "top_p", "min_p", "seed")}
        return tuple(name for name, value in given.items() if value != _DEFAULTS[name])

    def replace(self, **changes: Any) -> DecodingParams:
        """A copy with some fields changed; checked like a new one."""
        _refuse_unknown(changes)
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; `from_dict` reads them back."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> DecodingParams:
        """Parameters from names and values; an unknown name is a BadRequest that offers the nearest one."""
        if not isinstance(values, Mapping):
            raise BadRequest(f"parameters must be names with values, got {values!r}", code="bad_params")
        _refuse_unknown(values)
        return cls(**values)


_DEFAULTS: Final[dict[str, Any]] = {field.name: field.default for field in fields(DecodingParams)}


def _refuse_unknown(names: Iterable[str]) -> None:
    for name in names:
        if name in _DEFAULTS:
            continue
        near = difflib.get_close_matches(str(name).lower().replace("-", "_"), _DEFAULTS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known names are {', '.join(_DEFAULTS)}"
        raise BadRequest(f"there is no parameter {name!r}; {hint}", code="unknown_parameter")


def _number(name: str, value: object, allowed: Range) -> float | int | None:
    if value is None and allowed.optional:
        return None
    kind = numbers.Integral if allowed.integer else numbers.Real
    if isinstance(value, bool) or not isinstance(value, kind):
        raise _refusal(name, value, allowed)
    given: Any = value
    above_low = given > allowed.low if allowed.open_low else given >= allowed.low  # False for NaN
    if not above_low or (allowed.high is not None and given > allowed.high):
        raise _refusal(name, value, allowed)
    return int(given) if allowed.integer else float(given)


def _refusal(name: str, value: object, allowed: Range) -> BadRequest:
    return BadRequest(f"{name} must be {allowed}, got {value!r}; {allowed.way_out}", code=f"bad_{name}")


def _stop_strings(value: object) -> tuple[str, ...]:
    strings = (value,) if isinstance(value, str) else value
    if not isinstance(strings, Iterable) or isinstance(strings, (bytes, Mapping)):
        raise BadRequest(f"stop must be a string or a list of strings, got {value!r}", code="bad_stop")
    checked = []
    for text in strings:
        if not isinstance(text, str) or not text:
            raise BadRequest(
                f"stop holds {text!r}; each stop must be a non-empty string (for ids use stop_token_ids)",
                code="bad_stop",
            )
        try:
            text.encode()
        except UnicodeEncodeError:
            raise BadRequest(
                f"stop holds {text!r}, which has half a surrogate pair and can never be written; remove it",
                code="bad_stop",
            ) from None
        checked.append(text)
    return tuple(checked)


def _token_ids(value: object) -> tuple[int, ...]:
    ids = (value,) if isinstance(value, numbers.Integral) and not isinstance(value, bool) else value
    if not isinstance(ids, Iterable) or isinstance(ids, (str, bytes, Mapping)):
        raise BadRequest(
            f"stop_token_ids must be a list of token ids, got {value!r}", code="bad_stop_token_ids"
        )
    checked = []
    for token_id in ids:
        if isinstance(token_id, bool) or not isinstance(token_id, numbers.Integral) or token_id < 0:
            raise BadRequest(
                f"stop_token_ids holds {token_id!r}; each must be an id of at least 0; for text use stop",
                code="bad_stop_token_ids",
            )
        checked.append(int(token_id))
    return tuple(checked)
