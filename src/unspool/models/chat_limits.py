"""Bounds on what a chat template may use, asked for before it uses it.

`metering()` opens an account for one rendering; `tick` looks at the processor time it took, `spend` at the
text it made. The guards work out the size of a result from the operands, so that what is too large is never
made.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import Any

from jinja2.utils import Namespace

MAX_TEMPLATE_CHARACTERS = 1 << 20
MAX_CHARACTERS = 1 << 23  # of one string, the rendered text among them
MAX_WORK = 1 << 29  # characters of all strings that one rendering makes
MAX_ITEMS = 1 << 20  # of one list
MAX_NUMBER = 1_000_000  # as an argument of a filter or of a method of text and numbers: widths, counts
MAX_BITS = 4096  # of one whole number
MAX_CPU_S = 5.0  # processor time of one rendering

_WIDTH = re.compile(r"\d{7}|%[^a-zA-Z%]*\*|\{[^{}]*:[^{}]*\{")  # a width too large or computed


class TemplateLimitError(Exception):
    """The template went over a bound of this module."""


class _Meter:
    __slots__ = ("deadline_s", "work")

    def __init__(self) -> None:
        self.deadline_s = time.thread_time() + MAX_CPU_S
        self.work = 0

    def tick(self) -> None:
        if time.thread_time() > self.deadline_s:
            raise TemplateLimitError(f"ran for more than {MAX_CPU_S:g} s")

    def spend(self, n_characters: int) -> None:
        self.work += n_characters
        if n_characters > MAX_CHARACTERS or self.work > MAX_WORK:
            raise TemplateLimitError(f"makes text of more than {MAX_CHARACTERS} characters")


_meter: ContextVar[_Meter | None] = ContextVar("chat_template_meter", default=None)


def tick() -> None:
    if (meter := _meter.get()) is not None:
        meter.tick()


def spend(n_characters: int) -> None:
    if (meter := _meter.get()) is not None:
        meter.spend(n_characters)
    elif n_characters > MAX_CHARACTERS:  # Jinja computes constants when it compiles
        raise TemplateLimitError(f"makes text of more than {MAX_CHARACTERS} characters")


@contextmanager
def metering() -> Iterator[None]:
    """Bound what runs inside, in this thread."""
    token = _meter.set(_Meter())
    try:
        yield
    finally:
        _meter.reset(token)


def _size(value: Any) -> int:
    return len(value) if isinstance(value, str | bytes | list | tuple) else 0


def weight(value: Any) -> int:
    """About how many characters str(value) has; looks no further than the bound."""
    total, stack = 0, [value]
    while stack and total <= MAX_CHARACTERS:
        item = stack.pop()
        total += 2
        if isinstance(item, str | bytes):
            total += len(item)
        elif isinstance(item, dict):
            stack += [*item.keys(), *item.values()]
            total += 16  # more than its brackets, so that boxes in boxes end soon
        elif isinstance(item, list | tuple | set | frozenset):
            stack += item
            total += 16
        elif isinstance(item, Namespace):
            stack.append(object.__getattribute__(item, "_Namespace__attrs"))
    return total


def weighed(value: Any) -> Any:
    """The value, once its text is known to be bounded: everything a template writes passes here."""
    if not isinstance(value, str):
        spend(weight(value))
    return value


def listed(values: Any) -> Any:
    """An iterable as a list of bounded length; text, lists and what is no iterable as they are."""
    if isinstance(values, str | bytes | list | tuple) or not isinstance(values, Iterable):
        return values
    items = list(islice(values, MAX_ITEMS + 1))
    if len(items) > MAX_ITEMS:
        raise TemplateLimitError(f"makes a list of more than {MAX_ITEMS} items")
    return items


def _guard_sum(left: Any, right: Any) -> None:
    if isinstance(left, list | tuple):
        if _size(left) + _size(right) > MAX_ITEMS:
            raise TemplateLimitError(f"makes a list of more than {MAX_ITEMS} items")
    else:
        spend(_size(left) + _size(right))


def _guard_product(left: Any, right: Any) -> None:
    for sequence, times in ((left, right), (right, left)):
        if isinstance(sequence, str | bytes) and isinstance(times, int):
            spend(len(sequence) * max(times, 0))
        elif (
            isinstance(sequence, list | tuple)
            and isinstance(times, int)
            and len(sequence) * times > MAX_ITEMS
        ):
            raise TemplateLimitError(f"makes a list of more than {MAX_ITEMS} items")
    if isinstance(left, int) and isinstance(right, int):
        _guard_bits(left.bit_length() + right.bit_length())


def _guard_power(left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int):
        _guard_bits(left.bit_length() * max(right, 0))


def _guard_bits(n_bits: int) -> None:
    if n_bits > MAX_BITS:
        raise TemplateLimitError(f"makes a number of more than {MAX_BITS} bits")


def _guard_remainder(left: Any, right: Any) -> None:
    if isinstance(left, str):
        guard_format(left)
        spend(len(left) + left.count("%") * weight(right))


BINOP_GUARDS: dict[str, Callable[[Any, Any], None]] = {
    "+": _guard_sum,
    "*": _guard_product,
    "**": _guard_power,
    "%": _guard_remainder,
}


def guard_format(form: str) -> None:
    if _WIDTH.search(form):
        raise TemplateLimitError("formats with a width that is too large or computed")


def _guard_numbers(values: Iterable[Any]) -> None:
    for value in values:
        if isinstance(value, int) and abs(value) > MAX_NUMBER:
            raise TemplateLimitError(f"uses {str(value)[:20]} where at most {MAX_NUMBER} is allowed")


def guard_method(name: str, owner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Ask methods of text and numbers for the size of their result before they make it."""
    _guard_numbers((*args, *kwargs.values()))
    if name == "replace" and len(args) > 1 and all(isinstance(a, str | bytes) for a in args[:2]):
        spend(len(owner) + owner.count(args[0]) * len(args[1]))
    elif name == "join" and args:
        _guard_join(args[0], owner)
    elif name == "translate" and args and isinstance(args[0], dict):
        spend(len(owner) * max((_size(v) for v in args[0].values()), default=1))
    elif name in ("ljust", "rjust", "center", "zfill"):
        spend(len(owner) + MAX_NUMBER)
    elif name == "expandtabs":
        widths = [a for a in (*args, *kwargs.values()) if isinstance(a, int)]
        spend(len(owner) + owner.count("\t" if isinstance(owner, str) else b"\t") * max(widths, default=8))


def _guard_join(values: Any, separator: Any) -> None:
    if isinstance(values, list | tuple | str):
        spend(weight(values) + len(values) * _size(separator))


# Filters that choose or order values and write nothing.
_PICKING_FILTERS = frozenset(
    {"attr", "batch", "count", "d", "default", "dictsort", "first", "groupby", "items", "last", "length"}
    | {"list", "map", "max", "min", "random", "reject", "rejectattr", "reverse", "select", "selectattr"}
    | {"slice", "sort", "sum", "unique"}
)


def guard_filter(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    value, *rest = args
    options = (*rest, *kwargs.values())
    if name not in _PICKING_FILTERS:
        weighed(value)
    if name not in ("default", "d"):
        _guard_numbers(options)
    texts = [option for option in options if isinstance(option, str)]
    if name == "replace" and texts and isinstance(value, str):
        spend(len(value) + value.count(texts[0]) * max(map(len, texts)))
    elif name == "join":
        for separator in texts or [""]:
            _guard_join(value, separator)
    elif name == "format":
        _guard_remainder(str(value), options)
    elif name in ("indent", "wordwrap") and isinstance(value, str):
        widths = [abs(option) for option in options if isinstance(option, int)]
        each = max([4, *widths, *map(len, texts)]) if name == "indent" else max([1, *map(len, texts)])
        n_lines = value.count("\n") + 1 if name == "indent" else len(value)
        spend(len(value) + n_lines * each)
