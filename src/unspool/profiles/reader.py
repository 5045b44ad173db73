"""From a TOML file to a Profile.

    description = "what it is for, in one line"

    [temperature]            # a parameter of DecodingParams
    value = 0.8
    reason = "why this value"

    [needs.beam]             # what it needs beside parameters: see needs.py
    reason = "why"
    otherwise = "sample"     # optional: what to do where unspool does not have it

    [needs.beam.width]
    value = 4
    reason = "why this value"

A parameter may be written `temperature = 0.8`; `unspool profiles check` then asks for the reason.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from unspool.errors import BadRequest, brief, nearest, reason
from unspool.profiles.needs import INSTEAD, KINDS, check_setting
from unspool.profiles.profile import Need, Profile, Setting

MAX_BYTES: Final = 1 << 20


def read_profile(path: Path, *, is_shipped: bool = False) -> Profile:
    """The profile of a file, its shape checked; `effective` and `check` look at parameter values."""
    content = _parsed(path)
    description = content.pop("description", "")
    if not isinstance(description, str) or "\n" in description.strip():
        raise bad(path, "description", f"must be one line of text, got {brief(description)}")
    needs = content.pop("needs", {})
    if not isinstance(needs, Mapping):
        raise bad(path, "needs", f"must be tables such as [needs.beam], got {brief(needs)}")
    return Profile(
        name=path.stem,
        description=description.strip(),
        settings={name: _setting(path, name, held) for name, held in content.items()},
        needs=tuple(_need(path, kind, held) for kind, held in needs.items()),
        path=path,
        is_shipped=is_shipped,
    )


def bad(path: Path, key: str, problem: str) -> BadRequest:
    return BadRequest(f"{path}: {key}: {problem}", code="bad_profile")


def _parsed(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise BadRequest(
            f"cannot read the profile {path}: {reason(error)}; check the name", code="bad_profile"
        ) from error
    if len(data) > MAX_BYTES:
        raise BadRequest(f"{path} has more than {MAX_BYTES} bytes; this is no profile", code="bad_profile")
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        content: dict[str, Any] = tomllib.loads(
            data.decode("utf-8-sig")
        )  # Windows editors write a mark first
    except UnicodeDecodeError as error:
        raise BadRequest(
            f"{path} is not UTF-8 (byte {error.start}); convert it first", code="bad_profile"
        ) from error
    except (ValueError, RecursionError) as error:
        raise BadRequest(
            f"{path} is not TOML: {error}; `unspool profiles show chat` shows a profile", code="bad_profile"
        ) from error
    return content


def _setting(path: Path, key: str, held: Any) -> Setting:
    if not isinstance(held, Mapping):
        return Setting(held, "")
    _refuse_unknown(path, key, held, ("value", "reason"))
    if "value" not in held:
        raise bad(path, key, "has no value; write `value = ...` below it")
    return Setting(held["value"], _reason(path, key, held))


def _need(path: Path, kind: str, held: Any) -> Need:
    key = f"needs.{kind}"
    _refuse_unknown(path, "needs", [kind], KINDS)
    if not isinstance(held, Mapping):
        raise bad(path, key, f"must be a table [{key}] with a reason, got {brief(held)}")
    _refuse_unknown(path, key, held, ("reason", "otherwise", *KINDS[kind].settings))
    otherwise = held.get("otherwise", "")
    if "otherwise" in held and otherwise not in INSTEAD:
        raise bad(
            path, f"{key}.otherwise", f"must be {' or '.join(map(repr, INSTEAD))}, got {brief(otherwise)}"
        )
    settings = {}
    for name in KINDS[kind].settings:
        if name in held:
            settings[name] = _setting(path, f"{key}.{name}", held[name])
            try:
                check_setting(kind, name, settings[name].value)
            except BadRequest as error:
                raise bad(path, key, str(error)) from None
    return Need(kind, _reason(path, key, held), settings, otherwise)


def _reason(path: Path, key: str, held: Mapping[str, Any]) -> str:
    reason = held.get("reason", "")
    if not isinstance(reason, str):
        raise bad(path, f"{key}.reason", f"must be a text, got {brief(reason)}")
    return " ".join(reason.split())


def _refuse_unknown(path: Path, key: str, given: Iterable[str], known: Iterable[str]) -> None:
    for name in given:
        if name not in known:
            raise bad(path, key, f"there is no {name!r} here; {nearest(name, known)}")
