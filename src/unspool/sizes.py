"""Sizes of memory as people write them: 2GiB, 500MB, 50%."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from unspool.errors import BadRequest, brief

_UNITS: Final = {
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate(("k", "M", "G", "T"), start=1)},
    **{f"{letter}iB": 1024**power for power, letter in enumerate(("K", "M", "G", "T"), start=1)},
}
_FOLDED: Final = {unit.lower(): factor for unit, factor in _UNITS.items()}
_WRITTEN: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-z]+|%)", re.ASCII | re.IGNORECASE)


def read_bytes(name: str, value: Any) -> int:
    """Bytes: a whole number, or text with a unit. BadRequest for anything else, a part of something too."""
    try:
        size = read_size(name, value)
    except BadRequest:
        size = 0.0
    if isinstance(size, float):
        raise BadRequest(
            f"{name} must be bytes with a unit ({', '.join(_UNITS)}), as in 4.5GiB, got {brief(value)}",
            code=_code(name),
        )
    return size


def read_size(name: str, value: Any, *, also: str = "") -> int | float:
    """Bytes as an int, or a part in (0, 1] of what is free as a float.

    `value` is a whole number of bytes, a float that is a part, or either as text: "2GiB", "50%". `also`
    tells what else would do, for the message.
    """
    given = value
    if isinstance(value, str) and (written := _WRITTEN.fullmatch(value.strip())):
        number, unit = float(written[1]), written[2].lower()
        if unit == "%":
            value = number / 100
        elif unit in _FOLDED and math.isfinite(number):
            value = int(number * _FOLDED[unit])
    if type(value) is int and value >= 1:
        return value
    if isinstance(value, float) and 0 < value <= 1:
        return value
    raise BadRequest(
        f"{name} must be {also}bytes with a unit (2GiB, 500MB; {', '.join(_UNITS)}) or a part of the free "
        f"memory (50%, at most 100%), got {brief(given)}",
        code=_code(name),
    )


def shown(n_bytes: float) -> str:
    """Bytes for people, three figures and a binary unit: 1.5 GiB."""
    unit, factor = "B", 1
    for name in ("KiB", "MiB", "GiB", "TiB"):
        if n_bytes < 1000 * factor:
            break
        unit, factor = name, _UNITS[name]
    number = n_bytes / factor
    return f"{number:.0f} {unit}" if number >= 100 or factor == 1 else f"{number:.3g} {unit}"


def _code(name: str) -> str:
    return f"bad_{name.strip('-').replace('-', '_')}"
