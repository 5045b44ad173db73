"""What is wrong with a profile's file, all of it at once: for `unspool profiles check`."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Literal

from unspool.errors import BadRequest, ParameterConflict, brief
from unspool.light_dataclass import dataclass
from unspool.params import DecodingParams
from unspool.profiles.effective import given
from unspool.profiles.lookup import load_profile
from unspool.profiles.profile import Profile
from unspool.profiles.reader import read_profile


@dataclass(frozen=True, slots=True)
class Finding:
    """One line about one file: an error, or a warning about what works and should not be there."""

    path: Path
    severity: Literal["error", "warning"]
    key: str  # which part of the file; empty for the whole
    text: str

    def __str__(self) -> str:
        where = f"{self.key}: " if self.key else ""
        return f"{self.severity}: {where}{self.text}"


def check_profile(path: Path) -> list[Finding]:
    """Everything that is wrong with the file, in its order."""
    try:
        profile = read_profile(path)
    except BadRequest as error:
        return [Finding(path, "error", "", str(error).removeprefix(f"{path}: "))]
    found: list[Finding] = []
    if not profile.description:
        found.append(Finding(path, "error", "description", "is missing; say in one line what it is for"))
    if not profile.settings and not profile.needs:
        found.append(Finding(path, "error", "", "sets nothing; give at least one parameter"))
    for name, setting in profile.settings.items():
        found += _value(profile, name)
        if not setting.reason:
            found.append(_without_reason(path, name))
    for need in profile.needs:
        key = f"needs.{need.kind}"
        if not need.reason:
            found.append(_without_reason(path, key))
        found += [
            _without_reason(path, f"{key}.{name}") for name, held in need.settings.items() if not held.reason
        ]
    if not any(finding.severity == "error" for finding in found):
        found += _together(profile)
    return found


def _value(profile: Profile, name: str) -> list[Finding]:
    value = given(name, profile.values[name])
    try:
        held = getattr(DecodingParams.from_dict({name: value}), name)
    except ParameterConflict:  # alone it may lack its other half; `_together` sees them all
        return []
    except BadRequest as error:
        return [Finding(profile.path, "error", name, str(error))]
    # Where a profile has a value of its own that holds when none is named, the plain default says something.
    if held == _DEFAULTS[name] and name not in load_profile("default").values:
        return [
            Finding(
                profile.path, "warning", name, f"{brief(held)} is the default already, so it changes nothing"
            )
        ]
    return []


def _together(profile: Profile) -> list[Finding]:
    values = {name: given(name, value) for name, value in profile.values.items()}
    try:
        params = DecodingParams.from_dict(values)
    except BadRequest as error:
        return [Finding(profile.path, "error", "", str(error))]
    return [
        Finding(profile.path, "warning", name, "changes nothing beside the other values")
        for name in params.unused()
    ]


def _without_reason(path: Path, key: str) -> Finding:
    return Finding(path, "error", key, 'has no reason; add `reason = "..."` to its table')


_DEFAULTS = {field.name: field.default for field in fields(DecodingParams)}
