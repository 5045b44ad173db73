"""What a profile can need beside parameters, the settings of each, and which of them unspool has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from unspool import param_checks as checks
from unspool.param_checks import Range
from unspool.profiles.profile import Need, Profile


@dataclass(frozen=True, slots=True)
class NeedKind:
    """One kind of need: what it is called, what can be set about it, and whether unspool does it."""

    label: str
    settings: Mapping[str, Range | tuple[str, ...]]
    is_there: bool


KINDS: Final[Mapping[str, NeedKind]] = {
    "beam": NeedKind(
        "beam search",
        {
            "width": Range(True, 1, 1024, "4 is usual"),
            "length_norm": ("gnmt", "power", "none"),
            "length_alpha": Range(False, 0, 10, "0.6 is usual"),
        },
        is_there=False,
    ),
    "best_of": NeedKind(
        "best of n",
        {
            "n": Range(True, 2, 10_000, "8 is a start"),
            "verifier": ("majority", "tests", "mean_logprob", "sum_logprob", "regex", "schema", "callable"),
        },
        is_there=False,
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


def unmet(profile: Profile) -> tuple[Need, ...]:
    """What the profile cannot do without and unspool does not have."""
    return tuple(n for n in profile.needs if not KINDS[n.kind].is_there and not n.otherwise)


def replaced(profile: Profile) -> tuple[Need, ...]:
    """What unspool does not have and the profile names a way around."""
    return tuple(n for n in profile.needs if not KINDS[n.kind].is_there and n.otherwise)


def described(need: Need) -> str:
    """A need in words: beam search (width 4, length_norm gnmt)."""
    settings = ", ".join(f"{name} {setting.value}" for name, setting in need.settings.items())
    label = KINDS[need.kind].label
    return f"{label} ({settings})" if settings else label
