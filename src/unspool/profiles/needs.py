"""What a profile can need beside parameters, the settings of each, and which of them unspool has."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from unspool import param_checks as checks
from unspool.light_dataclass import dataclass
from unspool.param_checks import Range
from unspool.profiles.profile import Need, Profile


@dataclass(frozen=True, slots=True)
class NeedKind:
    """One kind of need: what it is called, what can be set about it, and whether unspool does it."""

    label: str
    settings: Mapping[str, Range | tuple[str, ...]]
    is_there: bool  # whether every request can have it
    commands: tuple[str, ...] = ()  # else those of `unspool` that do it


# Those that need nothing but answers; the others want tests, a schema, an endpoint beside a profile.
VERIFIERS: Final = (
    "majority",
    "mean-logprob",
    "sum-logprob",
    "normalised-logprob",
    "python-examples",
    "person",
)
KINDS: Final[Mapping[str, NeedKind]] = {
    "beam": NeedKind(
        "beam search",
        {
            "width": Range(True, 1, 256, "4 is usual"),
            "length_norm": ("gnmt", "power", "none"),
            "length_alpha": Range(False, 0, 10, "0.6 is usual"),
        },
        is_there=False,
        commands=("run", "explain", "best", "chat", "eval"),
    ),
    "best_of": NeedKind(
        "best of n",
        {
            "n": Range(True, 2, 10_000, "8 is a start"),
            "verifier": VERIFIERS,
        },
        is_there=False,
        commands=("best",),
    ),
    "schema": NeedKind("a JSON schema to decode by", {}, is_there=False),
    "tools": NeedKind("a grammar made of tool schemas", {}, is_there=False),
}
INSTEAD: Final = ("sample",)


def check_setting(kind: str, name: str, value: Any) -> None:
    """Raise BadRequest for a value that the setting of a need cannot have."""
    allowed = KINDS[kind].settings[name]
    if isinstance(allowed, Range):
        allowed.check(name, value)
    else:
        checks.one_of(name, value, allowed)


def unmet(profile: Profile, has: Collection[str] = ()) -> tuple[Need, ...]:
    """What the profile cannot do without and is not there; `has` are kinds that the caller sees to."""
    return tuple(n for n in _missing(profile, has) if not n.otherwise)


def replaced(profile: Profile, has: Collection[str] = ()) -> tuple[Need, ...]:
    """What is not there and the profile names a way around."""
    return tuple(n for n in _missing(profile, has) if n.otherwise)


def nowhere(profile: Profile) -> tuple[Need, ...]:
    """What the profile cannot do without and no command does."""
    return unmet(profile, [name for name, kind in KINDS.items() if kind.commands])


def where(needs: Iterable[Need]) -> str:
    """Who does what a request cannot have, as the end of a sentence about it."""
    able = [KINDS[need.kind].commands for need in needs]
    all_able = [command for command in able[0] if all(command in each for each in able)]
    if not all_able:
        return "which unspool does not have yet"
    return f"which {listed(all_able)} {'does' if len(all_able) == 1 else 'do'}"


def listed(commands: Sequence[str], more: str = "") -> str:
    """Commands as a sentence names them; `more` stands behind the first."""
    first, *others = commands
    names = [f"`unspool {first}{more}`", *(f"`{command}`" for command in others)]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _missing(profile: Profile, has: Collection[str]) -> list[Need]:
    return [need for need in profile.needs if not KINDS[need.kind].is_there and need.kind not in has]


def described(need: Need) -> str:
    """A need in words: beam search (width 4, length_norm gnmt)."""
    settings = ", ".join(f"{name} {setting.value}" for name, setting in need.settings.items())
    label = KINDS[need.kind].label
    return f"{label} ({settings})" if settings else label
