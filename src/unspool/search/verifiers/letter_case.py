"""Whether what a pattern finds is the same whatever the case of its letters: what its flags say, each for the
part of the pattern that it holds for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from unspool.automaton import re_parser
from unspool.light_dataclass import dataclass

_MANY: Final = 1000  # characters from which a range is said to have letters, without a look at each
_CASELESS: Final = ("CATEGORY_DIGIT", "CATEGORY_SPACE")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a pattern as Python's parser gives it, and how it stands in the whole."""

    parsed: Any
    ignores_case: bool  # where it begins
    is_sure: bool = True  # whether every match has it


def ignores_case(compiled: re.Pattern[str], groups: tuple[int, ...]) -> bool:
    """Whether every letter of what is found stands where the pattern ignores case: of the first of `groups`
    that a match has, or of the match where it has none of them."""
    ignoring = bool(compiled.flags & re.IGNORECASE)
    whole = Part(re_parser.parse(compiled.pattern, compiled.flags), ignoring)
    parts = {0: whole, **dict(_groups(whole))}
    found: list[Part] = []
    for number in (*groups, 0):
        found.append(parts[number])
        if parts[number].is_sure:
            break
    letters = [at_it for part in found for at_it in _letters(part, parts)]
    return bool(letters) and all(letters)


def _groups(part: Part) -> Iterator[tuple[int, Part]]:
    for kind, value in part.parsed:
        for number, inner in _inner(str(kind), value, part):
            if number is not None:
                yield number, inner
            yield from _groups(inner)


def _letters(part: Part, groups: dict[int, Part]) -> Iterator[bool]:
    """For each place where a letter may stand, whether its case is ignored there."""
    for kind, value in part.parsed:
        name = str(kind)
        if name == "GROUPREF":  # what it says again has the case that it had
            yield from [True] if part.ignores_case else _letters(groups[value], groups)
        elif _may_be_letter(name, value):
            yield part.ignores_case
        elif not name.startswith("ASSERT"):  # which looks, and takes nothing in
            for _, inner in _inner(name, value, part):
                yield from _letters(inner, groups)


def _inner(name: str, value: Any, part: Part) -> Iterator[tuple[int | None, Part]]:
    """The parts that an element is made of, with their numbers where they are groups."""
    ignoring, is_sure = part.ignores_case, part.is_sure
    if name == "SUBPATTERN":
        number, more, fewer, parsed = value
        here = (ignoring or bool(more & re.IGNORECASE)) and not fewer & re.IGNORECASE
        yield number, Part(parsed, here, is_sure)
    elif name == "BRANCH":
        yield from ((None, Part(each, ignoring, False)) for each in value[1])
    elif name == "GROUPREF_EXISTS":
        yield from ((None, Part(each, ignoring, False)) for each in value[1:] if each is not None)
    elif name.endswith("_REPEAT"):
        yield None, Part(value[2], ignoring, is_sure and value[0] > 0)
    elif name.startswith("ASSERT"):
        yield None, Part(value[1], ignoring, is_sure and name == "ASSERT")
    elif name == "ATOMIC_GROUP":
        yield None, Part(value, ignoring, is_sure)


def _may_be_letter(name: str, value: Any) -> bool:
    """Whether an element is one character, and that one may have two cases."""
    if name == "LITERAL":
        return _has_case(value)
    if name == "RANGE":
        return value[1] - value[0] >= _MANY or any(map(_has_case, range(value[0], value[1] + 1)))
    if name == "CATEGORY":
        return str(value) not in _CASELESS
    if name == "IN":
        return any(_may_be_letter(str(kind), each) for kind, each in value)
    return name in ("ANY", "NOT_LITERAL", "NEGATE")


def _has_case(code: int) -> bool:
    return chr(code).swapcase() != chr(code)
