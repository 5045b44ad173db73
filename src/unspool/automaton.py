"""Regular expressions as automata that read a text once, character by character, while it is written.

A backtracking matcher reads the text again with every token, and for some patterns takes forever. Here a
pattern becomes a nondeterministic automaton (Thompson 1968, CACM 11(6)): a character costs one look at each
place in the pattern where a match could be, whatever the text is. Python's own parser reads the pattern, so
it means what it means to `re`. Refused is what is not regular (references to groups, looking around, atomic
groups) and what cannot be known before the text ends (`$`, `\\Z`).
"""

from __future__ import annotations

import enum
import importlib
import re
import sys
from collections.abc import Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any, Final

from unspool.light_dataclass import dataclass

# The parser has no public name; what it returns has not changed since Python 3.7.
re_parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")

MATCH: Final = -1  # the place behind the whole pattern
MAX_PLACES: Final = 2000
_MAX_CHARACTERS: Final = 20_000  # of a pattern: so long a one is not worth parsing
_MAX_NESTED: Final = 100  # groups in each other: the parser and the builder call themselves for each
_MAX_FOLLOWERS: Final = 20_000  # a character costs at most so many looks
_MAX_STEPS: Final = 50_000  # of building: empty groups can be repeated for free, and for ever
_MAX_KNOWN: Final = 4096  # characters whose atoms are remembered


class PatternError(ValueError):
    """What is wrong with a pattern, and where if that is known."""


class Assertion(enum.Enum):
    """A condition on the characters before and after a place; None is the start of the text."""

    TEXT_START = "\\A"
    LINE_START = "^ with (?m)"
    LINE_END = "$ with (?m)"
    WORD_EDGE = "\\b"
    NO_WORD_EDGE = "\\B"
    ASCII_WORD_EDGE = "\\b with (?a)"
    ASCII_NO_WORD_EDGE = "\\B with (?a)"

    def holds(self, before: str | None, after: str) -> bool:
        if self is Assertion.TEXT_START:
            return before is None
        if self is Assertion.LINE_START:
            return before is None or before == "\n"
        if self is Assertion.LINE_END:
            return after == "\n"
        word = _WORD if self in (Assertion.WORD_EDGE, Assertion.NO_WORD_EDGE) else _ASCII_WORD
        is_edge = bool(before is not None and word.match(before)) != bool(word.match(after))
        return is_edge == (self in (Assertion.WORD_EDGE, Assertion.ASCII_WORD_EDGE))


_WORD: Final = re.compile(r"\w")
_ASCII_WORD: Final = re.compile(r"\w", re.ASCII)


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the pattern: before a character, or before an assertion (then `atom` is 0)."""

    atom: int  # bit of the atom that the next character must match
    assertion: Assertion | None
    followers: tuple[int, ...]  # the places behind it; MATCH is one


@dataclass(frozen=True, slots=True)
class Automaton:
    """One pattern, compiled. Immutable but for what it remembers of characters it has seen."""

    pattern: str
    start: tuple[int, ...]  # the places before the first character
    places: tuple[Place, ...]
    first_atoms: int  # bits of the atoms that a match can begin with
    atoms: tuple[re.Pattern[str], ...]
    _known: dict[str, int] = field(default_factory=dict, compare=False, repr=False)

    def atoms_of(self, character: str) -> int:
        """Bits of the atoms that match a character."""
        bits = self._known.get(character)
        if bits is None:
            bits = sum(1 << i for i, atom in enumerate(self.atoms) if atom.match(character))
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[character] = bits
        return bits


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Automaton:
    """Raises PatternError for a pattern that is malformed, not regular, too large, or matches nothing."""
    if len(pattern) > _MAX_CHARACTERS:
        raise PatternError(f"it has {len(pattern)} characters, and {_MAX_CHARACTERS} is the most")
    if _most_nested(pattern) > _MAX_NESTED:
        raise PatternError(f"its groups are nested too deeply: {_MAX_NESTED} in each other are the most")
    try:
        parsed = re_parser.parse(pattern)
        builder = _Builder()
        entry = builder.sequence(parsed, parsed.state.flags, builder.node(MATCH))
    except re.error as error:
        raise PatternError(f"{error.msg} at position {error.pos}") from None
    except OverflowError as error:
        raise PatternError(str(error)) from None
    except RecursionError:
        raise PatternError("its groups are nested too deeply") from None
    return builder.finish(pattern, entry)


_PARENTHESES: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\\\]])*\]|[()]", re.DOTALL)


def _most_nested(pattern: str) -> int:
    """How many groups are open at once at most; the limit on recursion is not ours to rely on."""
    depth = deepest = 0
    for found in _PARENTHESES.findall(pattern):
        depth += (found == "(") - (found == ")")
        deepest = max(deepest, depth)
    return deepest


class _Builder:
    """Builds from the back: each part is given the node behind it and returns the node before it.

    A node is a list of what it leads to; places have numbers of their own, and lead on by `_behind`.
    """

    def __init__(self) -> None:
        self._nodes: list[list[int]] = []  # of each node: nodes as they are, places as ~place - 1
        self._behind: list[int] = []  # of each place: the node behind it
        self._what: list[tuple[int, Assertion | None]] = []
        self._atoms: dict[tuple[str, int], int] = {}
        self._n_steps = 0

    def node(self, *leads_to: int) -> int:
        self._step()
        self._nodes.append(list(leads_to))
        return len(self._nodes) - 1

    def sequence(self, items: Any, flags: int, behind: int) -> int:
        for op, argument in reversed(list(items)):
            behind = self._item(str(op), argument, flags, behind)
        return behind

    def _item(self, op: str, argument: Any, flags: int, behind: int) -> int:
        self._step()
        if op in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
            return self._place(self._atom(_source(op, argument), flags), None, behind)
        if op == "AT":
            return self._place(0, _assertion(str(argument), flags), behind)
        if op == "SUBPATTERN":
            _, added, removed, items = argument
            return self.sequence(items, (flags | added) & ~removed, behind)
        if op == "BRANCH":
            return self.node(*(self.sequence(branch, flags, behind) for branch in argument[1]))
        if op in ("MAX_REPEAT", "MIN_REPEAT"):  # the first match to be complete counts: greed is the same
            least, most, items = argument
            return self._repeat(items, flags, behind, int(least), most)
        raise PatternError(f"{_NOT_REGULAR.get(op, op)} cannot be followed while a text is written")

    def _repeat(self, items: Any, flags: int, behind: int, least: int, most: Any) -> int:
        end = behind
        if most is re_parser.MAXREPEAT:
            loop = self.node(behind)
            self._nodes[loop].append(self.sequence(items, flags, loop))
            end = loop
        else:
            for _ in range(int(most) - least):
                end = self.node(behind, self.sequence(items, flags, end))
        for _ in range(least):
            self._step()
            end = self.sequence(items, flags, end)
        return end

    def _place(self, atom: int, assertion: Assertion | None, behind: int) -> int:
        if len(self._what) == MAX_PLACES:
            raise PatternError(f"it has more than {MAX_PLACES} places, with its repeats written out")
        self._what.append((atom, assertion))
        self._behind.append(behind)
        return self.node(-len(self._what) - 1)

    def _atom(self, source: str, flags: int) -> int:
        key = source, flags & (re.IGNORECASE | re.DOTALL | re.ASCII)
        return 1 << self._atoms.setdefault(key, len(self._atoms))

    def _step(self) -> None:
        self._n_steps += 1
        if self._n_steps > _MAX_STEPS:
            raise PatternError("it is too large, with its repeats written out")

    def _leads_to(self, node: int) -> tuple[int, ...]:
        """The places that a node leads to without a character, MATCH among them."""
        found: dict[int, None] = {}
        seen, left = {node}, [node]
        while left:
            for target in self._nodes[left.pop()]:
                if target < 0:
                    found[MATCH if target == MATCH else -target - 2] = None
                elif target not in seen:
                    seen.add(target)
                    left.append(target)
        return tuple(found)

    def finish(self, pattern: str, entry: int) -> Automaton:
        start = self._leads_to(entry)
        places: list[Place] = []
        n_followers = 0
        for (atom, assertion), behind in zip(self._what, self._behind, strict=True):
            places.append(Place(atom, assertion, self._leads_to(behind)))
            n_followers += len(places[-1].followers)
            if n_followers > _MAX_FOLLOWERS:
                raise PatternError("it can go on in too many ways; repeat fewer optional parts")
        first = _beyond_assertions(start, places)
        if MATCH in first:
            raise PatternError("it matches the empty text, which is there before anything is written")
        first_atoms = 0
        for i in first:
            first_atoms |= places[i].atom
        atoms = tuple(re.compile(source, flags) for source, flags in self._atoms)
        return Automaton(pattern, start, tuple(places), first_atoms, atoms)


def _beyond_assertions(start: Sequence[int], places: Sequence[Place]) -> set[int]:
    """The places reached when every assertion holds."""
    seen, left = set(start), list(start)
    while left:
        i = left.pop()
        if i != MATCH and places[i].assertion is not None:
            new = set(places[i].followers) - seen
            seen |= new
            left += new
    return seen


_NOT_REGULAR: Final = {
    "GROUPREF": "a reference to a group",
    "GROUPREF_EXISTS": "a condition on a group",
    "ASSERT": "looking ahead or behind",
    "ASSERT_NOT": "looking ahead or behind",
    "FAILURE": "looking ahead or behind",
    "ATOMIC_GROUP": "an atomic group",
    "POSSESSIVE_REPEAT": "a possessive repeat",
}
_CATEGORIES: Final = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}


def _source(op: str, argument: Any) -> str:
    """A pattern for one character, from its parsed form."""
    if op == "ANY":
        return "."
    if op == "LITERAL":
        return _escaped(argument)
    if op == "NOT_LITERAL":
        return f"[^{_escaped(argument)}]"
    parts = []
    for kind, value in argument:
        if str(kind) == "NEGATE":
            parts.append("^")
        elif str(kind) == "RANGE":
            parts.append(f"{_escaped(value[0])}-{_escaped(value[1])}")
        else:
            parts.append(_CATEGORIES[str(value)] if str(kind) == "CATEGORY" else _escaped(value))
    return f"[{''.join(parts)}]"


def _escaped(code_point: int) -> str:
    return f"\\U{code_point:08x}"


def _assertion(at: str, flags: int) -> Assertion:
    is_ascii = bool(flags & re.ASCII)
    if at == "AT_BEGINNING_STRING":
        return Assertion.TEXT_START
    if at == "AT_BEGINNING":
        return Assertion.LINE_START if flags & re.MULTILINE else Assertion.TEXT_START
    if at == "AT_BOUNDARY":
        return Assertion.ASCII_WORD_EDGE if is_ascii else Assertion.WORD_EDGE
    if at == "AT_NON_BOUNDARY":
        return Assertion.ASCII_NO_WORD_EDGE if is_ascii else Assertion.NO_WORD_EDGE
    if at == "AT_END" and flags & re.MULTILINE:
        return Assertion.LINE_END
    raise PatternError("the end of a text ($, \\Z) is not known while it is written; (?m)$ is a line's end")
