"""A profile under what was asked for by hand: what is explicit wins, and what it rules out gives way."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from unspool.errors import BadRequest, ParameterConflict
from unspool.light_dataclass import dataclass
from unspool.params import RANGES, DecodingParams
from unspool.profiles.needs import described, unmet, where
from unspool.profiles.profile import Profile


@dataclass(frozen=True, slots=True)
class Effective:
    """The parameters to decode with, and which of the profile's had to give way to explicit ones."""

    params: DecodingParams
    gave_way: tuple[str, ...]


def effective(profile: Profile, explicit: Mapping[str, Any], has: Collection[str] = ()) -> Effective:
    """The profile's parameters with the explicit ones over them.

    A value of the profile gives way, beside being replaced, where it contradicts an explicit one (its
    top_p beside mirostat=2) or cannot matter beside it (its top_p at temperature=0). Raises BadRequest for
    a file that is wrong, for explicit values that are, and for a profile that needs what is not there; `has`
    are kinds of needs that the caller sees to.
    """
    refuse_unmet(profile, has)
    own = params_of(profile).to_dict()
    held = {name: own[name] for name in profile.settings if name not in explicit}
    gave_way: list[str] = []
    while True:
        try:
            params = DecodingParams.from_dict(held | dict(explicit))
            break
        except ParameterConflict as conflict:
            yielding = [name for name in conflict.names if name in held]
            if not yielding:
                raise
            for name in yielding:
                del held[name]
                gave_way.append(name)
    unused = [name for name in params.unused() if name in held]
    if unused:
        left = {name: value for name, value in held.items() if name not in unused}
        params = DecodingParams.from_dict(left | dict(explicit))
    return Effective(params, (*gave_way, *unused))


def params_of(profile: Profile) -> DecodingParams:
    """The profile's parameters alone, checked; a BadRequest names its file."""
    try:
        return DecodingParams.from_dict({name: given(name, value) for name, value in profile.values.items()})
    except BadRequest as error:
        raise BadRequest(f"{profile.path}: {error}", code="bad_profile") from error


def given(name: str, value: Any) -> Any:
    """A value as TOML has it. TOML has no None, which is written "none" where a number may be none."""
    return None if value == "none" and name in RANGES and RANGES[name].optional else value


def refuse_unmet(profile: Profile, has: Collection[str] = ()) -> None:
    """Raise BadRequest, with the rest of the profile as a way out, if it needs what unspool has not."""
    if not (missing := unmet(profile, has)):
        return
    rest = ", ".join(f"{name}={value!r}" for name, value in profile.values.items())
    raise BadRequest(
        f"profile {profile.name!r} needs {' and '.join(described(need) for need in missing)}, "
        f"{where(missing)}; "
        + (f"give the rest of it by hand ({rest}), or " if rest else "")
        + f"see `unspool profiles show {profile.name}`",
        code="unmet_need",
    )
