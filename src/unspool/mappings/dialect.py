"""What a dialect is: a table of names, and how it is read and written."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import field, fields
from typing import Any, Final, TypeVar

from unspool.errors import BadRequest, brief
from unspool.light_dataclass import dataclass
from unspool.param_checks import Range
from unspool.params import RANGES, DecodingParams

ABSENT: Final = object()  # of a table: there is no default to tell of, or a value that is not written
LOST: Final = object()  # of `write`: the dialect cannot say this value

OURS: Final[Mapping[str, Any]] = {each.name: each.default for each in fields(DecodingParams)}
_Any = TypeVar("_Any")


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is not word for word the same on both sides. None where a side has no name for it."""

    their_name: str | None
    their_value: Any
    our_name: str | None
    our_value: Any
    note: str

    def __str__(self) -> str:
        sides = ((self.their_name, self.their_value), (self.our_name, self.our_value))
        named = [name if value is None else f"{name}={brief(value)}" for name, value in sides if name]
        return f"{' -> '.join(named)}: {self.note}"


@dataclass(frozen=True, slots=True)
class Told:
    """A value that is read as another one, and why."""

    value: Any
    note: str


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Field:
    """One of their names, and the parameter of ours that it sets."""

    theirs: str
    ours: str
    default: Any = ABSENT  # theirs, in our terms, where it is not ours
    allowed: Range | None = None  # their range; None: ours
    read: Callable[[Any], Any] = _same  # to our value, or to Told
    write: Callable[[Any], Any] = _same  # to their value, or to LOST or ABSENT
    note: str = ""  # told whenever it is given: in what its meaning differs
    takes_none: bool = False  # None is a value of theirs, and not the same as saying nothing
    aliases: tuple[str, ...] = ()


@dataclass(slots=True)
class Reading:
    """What has been understood so far. `given` holds what has not."""

    dialect: str
    given: dict[str, Any]
    ours: dict[str, Any] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    set_by: dict[str, str] = field(default_factory=dict)  # our name to the name that was given for it

    def take(self, name: str) -> Any:
        """The value given for a name, which then counts as understood; None when there is none."""
        return self.given.pop(name, None)

    def put(self, theirs: str, value: Any, ours: str, our_value: Any, note: str = "") -> None:
        """Set a parameter of ours from a name of theirs; a note makes it a change."""
        if ours in self.set_by:
            raise self.refusal(theirs, value, f"{self.set_by[ours]} says the same; keep one")
        self.ours[ours] = our_value
        self.set_by[ours] = theirs
        if note:
            self.changes.append(Change(theirs, value, ours, our_value, note))

    def fill_in(self, theirs: str, ours: str, our_value: Any, note: str = "") -> None:
        """Set a parameter of ours to what they take when nothing is given; a change where ours is another."""
        self.ours[ours] = our_value
        if our_value != OURS[ours] or note:
            note = note or f"what {self.dialect} takes when it is not given"
            self.changes.append(Change(theirs, None, ours, our_value, note))

    def drop(self, name: str, value: Any, note: str) -> None:
        self.changes.append(Change(name, value, None, None, note))

    def silence(self, ours: str, note: str) -> None:
        """Put a parameter of ours back to its neutral value; a change if somebody had given it."""
        value = self.ours.pop(ours, None)
        self.changes = [change for change in self.changes if change.our_name != ours]
        if ours in self.set_by:
            self.drop(self.set_by.pop(ours), value, note)

    def refusal(self, name: str, value: object, why: str) -> BadRequest:
        return BadRequest(f"{self.dialect}: {name}={brief(value)}: {why}", code=f"bad_{name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """An engine's names. `before` and `after` are for what several names say together."""

    name: str
    order: str = "unspool"
    fields: tuple[Field, ...]
    elsewhere: Mapping[str, str]  # what is no decoding parameter, and whose it is
    before: Callable[[Reading], None] = lambda reading: None
    before_names: tuple[str, ...] = ()  # the names that `before` takes
    after: Callable[[Reading], None] = lambda reading: None
    finish: Callable[[DecodingParams, dict[str, Any], list[Change]], None] = lambda params, theirs, lost: None
    finish_names: Mapping[str, str] = field(default_factory=dict)  # ours that `finish` minds, to theirs or ""


def read(dialect: Dialect, given: object) -> tuple[DecodingParams, tuple[Change, ...]]:
    """Their parameters as ours, and what changed. Raises BadRequest for what cannot be."""
    reading = Reading(dialect.name, _plain(dialect.name, given))
    dialect.before(reading)
    nullable = {each.theirs for each in dialect.fields if each.takes_none}
    given = reading.given.items()
    reading.given = {name: value for name, value in given if value is not None or name in nullable}
    for each in dialect.fields:
        for name in (each.theirs, *each.aliases):
            if name in reading.given:
                _read_field(reading, each, name, reading.take(name))
    for name, value in reading.given.items():
        reading.drop(name, value, f"no decoding parameter: {_whose(dialect, name)}")
    for each in dialect.fields:
        if each.default is not ABSENT and each.ours not in reading.set_by and each.ours not in reading.ours:
            reading.fill_in(each.theirs, each.ours, each.default)
    dialect.after(reading)
    return _params_of({"order": dialect.order} | reading.ours, reading.set_by), tuple(reading.changes)


def _params_of(ours: dict[str, Any], set_by: Mapping[str, str]) -> DecodingParams:
    try:
        return DecodingParams(**ours)
    except BadRequest as error:
        name = error.code.removeprefix("bad_")
        theirs = set_by.get(name, name)
        if theirs == name:
            raise
        raise BadRequest(f"{theirs}: {error}", code=f"bad_{theirs}") from None


def _read_field(reading: Reading, each: Field, name: str, value: Any) -> None:
    read_value = each.read(value)
    note = each.note
    if isinstance(read_value, Told):
        read_value, note = read_value.value, read_value.note
    elif each.allowed is not None:
        each.allowed.check(name, read_value)
    if each.ours in RANGES:
        read_value = RANGES[each.ours].check(name, read_value)
    reading.put(name, value, each.ours, read_value, note)


def _whose(dialect: Dialect, name: str) -> str:
    if name in dialect.elsewhere:
        return dialect.elsewhere[name]
    names = [name for each in dialect.fields for name in (each.theirs, *each.aliases)]
    names += [*dialect.before_names, *dialect.elsewhere]
    near = difflib.get_close_matches(str(name).lower().replace("-", "_"), names, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names)}"
    raise BadRequest(f"{dialect.name} has no parameter {name!r}; {hint}", code="unknown_parameter")


def write(dialect: Dialect, params: DecodingParams) -> tuple[dict[str, Any], tuple[Change, ...]]:
    """Our parameters in their names, all of them written out, and what they cannot say."""
    theirs: dict[str, Any] = {}
    lost: list[Change] = []
    for each in dialect.fields:
        value = getattr(params, each.ours)
        written = each.write(value)
        if written is LOST or not _within(each, written):
            lost.append(_lost(dialect, each.ours, value, f"has no such value of {each.theirs}"))
        elif written is not ABSENT:
            theirs[each.theirs] = written
    dialect.finish(params, theirs, lost)
    known = {each.ours for each in dialect.fields} | {*dialect.finish_names, "order"}
    for name, default in OURS.items():
        if name not in known and getattr(params, name) != default:
            lost.append(_lost(dialect, name, getattr(params, name), "has no such parameter"))
    if "order" not in dialect.finish_names and params.order != dialect.order:
        lost.append(_lost(dialect, "order", params.order, "has an order of its own"))
    return theirs, tuple(lost)


def _within(each: Field, written: Any) -> bool:
    if each.allowed is None or written is ABSENT:
        return True
    try:
        each.allowed.check(each.theirs, written)
    except BadRequest:
        return False
    return True


def _lost(dialect: Dialect, ours: str, value: Any, why: str) -> Change:
    return Change(None, None, ours, value, f"{dialect.name} {why}")


def _plain(dialect: str, given: object) -> dict[str, Any]:
    """Names and values of a mapping, or of an object like GenerationConfig or SamplingParams."""
    if isinstance(given, Mapping):
        return dict(given)
    names = getattr(given, "__struct_fields__", None)
    if names is not None:
        return {name: getattr(given, name) for name in names if not name.startswith("_")}
    if callable(to_dict := getattr(given, "to_dict", None)):
        return dict(to_dict())
    if given is None or isinstance(given, (str, bytes, int, float, list, tuple)):
        raise BadRequest(
            f"{dialect}: parameters must be names with values, got {brief(given)}", code="bad_params"
        )
    return {name: value for name, value in vars(given).items() if not name.startswith("_")}
