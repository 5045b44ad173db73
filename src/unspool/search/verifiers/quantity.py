"""Numbers in running text, exactly: integers, decimals, fractions, mixed numbers, percentages, units."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from unspool.light_dataclass import dataclass

# unit -> (dimension, how many of the base unit)
_UNITS: Final[dict[str, tuple[str, Fraction]]] = {
    name: (dimension, Fraction(factor))
    for dimension, units in {
        "length": {
            "mm": "1/1000", "cm": "1/100", "dm": "1/10", "m": "1", "km": "1000",
            "inch": "127/5000", "ft": "381/1250", "yd": "1143/1250", "mi": "201168/125",
        },
        "mass": {"mg": "1/1000000", "g": "1/1000", "kg": "1", "t": "1000", "lb": "45359237/100000000"},
        "time": {"ms": "1/1000", "s": "1", "min": "60", "h": "3600", "d": "86400", "week": "604800"},
        "volume": {"ml": "1/1000", "cl": "1/100", "dl": "1/10", "l": "1"},
        "share": {"%": "1/100"},
        "dollars": {"$": "1", "¢": "1/100"},
        "euros": {"€": "1"},
        "pounds": {"£": "1"},
    }.items()
    for name, factor in units.items()
}  # fmt: skip
_SPELLINGS: Final = {
    "millimeter": "mm", "centimeter": "cm", "meter": "m", "kilometer": "km", "metre": "m", "centimetre": "cm",
    "kilometre": "km", "millimetre": "mm", "inche": "inch", "foot": "ft", "feet": "ft", "yard": "yd",
    "mile": "mi", "gram": "g", "kilogram": "kg", "milligram": "mg", "kilo": "kg", "ton": "t", "tonne": "t",
    "pound": "lb", "second": "s", "sec": "s", "minute": "min", "hour": "h", "hr": "h", "day": "d",
    "millisecond": "ms", "liter": "l", "litre": "l", "milliliter": "ml", "millilitre": "ml",
    "percent": "%", "dollar": "$", "usd": "$", "cent": "¢", "euro": "€", "eur": "€",
}  # fmt: skip
_VULGAR: Final = {
    "½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅕": "1/5", "⅖": "2/5", "⅗": "3/5",
    "⅘": "4/5", "⅙": "1/6", "⅚": "5/6", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8",
}  # fmt: skip
_MOST_PLACES: Final = 6  # of a decimal that is shown in place of a fraction
_WHOLE: Final = r"\d{1,3}(?:,\d{3})+(?!\d)|\d+"
_NUMBER: Final = re.compile(
    rf"""(?P<sign>(?<![\w.)])-)?
    (?P<before>[$€£]\s?)?
    (?P<minus>(?<=[$€£])-)?
    (?:(?P<mixed>\d+)\s+(?=\d+\s?/\s?\d))?
    (?:(?P<top>{_WHOLE})\s?/\s?(?P<bottom>{_WHOLE})(?![\d/])
      |(?P<number>(?:{_WHOLE})(?:\.\d+)?|(?<![\w.])\.\d+)(?:[eE](?P<power>[+-]?\d{{1,3}})(?![\w]))?)
    (?P<after>\s{{0,2}}(?:%|¢|€|£|\$|[A-Za-z]+(?![\w(])))?""",
    re.VERBOSE,
)
_FRACTION: Final = re.compile(r"\\[dt]?frac\s*\{\s*(-?[\d,]+)\s*\}\s*\{\s*([\d,]+)\s*\}")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number and the unit behind it, where it is one that is known."""

    value: Fraction
    unit: str = ""

    def __str__(self) -> str:
        return f"{_shown(self.value)} {self.unit}".strip()

    def in_unit(self, unit: str) -> Fraction | None:
        """Its value in a unit; None when that measures something else. One of the two without a unit is
        taken to be in the other's, because answers leave units out."""
        if self.unit == unit or not self.unit or not unit:
            return self.value
        (own, factor), (wanted, per) = _UNITS[self.unit], _UNITS[unit]
        return self.value * factor / per if own == wanted else None


def _shown(value: Fraction) -> str:
    """As a decimal where a short one is exact, and else as a fraction."""
    for places in range(_MOST_PLACES + 1):
        scaled = value * 10**places
        if scaled.denominator == 1:
            digits = str(abs(scaled.numerator)).rjust(places + 1, "0")
            whole, part = digits[: len(digits) - places], digits[len(digits) - places :]
            return f"{'-' if value < 0 else ''}{whole}{'.' if part else ''}{part}"
    return str(value)


def known_unit(text: str) -> str | None:
    """A unit by any of its spellings; None for one that is not known."""
    return _unit_of(text.strip()) or None


def quantities(text: str) -> list[Quantity]:
    """All numbers of a text, in order. A unit that is not known is left out: "5 apples" is 5."""
    return [found for match in _NUMBER.finditer(_plain(text)) if (found := _read(match)) is not None]


def _plain(text: str) -> str:
    """The same in ASCII signs, and LaTeX's fractions as others write them."""
    text = _FRACTION.sub(r" \1/\2 ", text).replace("\\%", "%").replace("\\$", "$").replace("\\!", "")
    text = text.replace("−", "-").replace("\u202f", " ").replace("\u00a0", " ").replace("⁄", "/")
    return "".join(f" {_VULGAR[c]} " if c in _VULGAR else c for c in text)


def _read(match: re.Match[str]) -> Quantity | None:
    if match["top"] is not None:
        bottom = _whole(match["bottom"])
        if bottom == 0:
            return None
        value = Fraction(_whole(match["top"]), bottom) + int(match["mixed"] or 0)
    else:
        value = Fraction(match["number"].replace(",", "")) * Fraction(10) ** int(match["power"] or 0)
    if match["sign"] or match["minus"]:
        value = -value
    before = (match["before"] or "").strip()
    return Quantity(value, before or _unit_of((match["after"] or "").strip()))


def _unit_of(word: str) -> str:
    if word in _UNITS:
        return word
    lower = word.lower()
    for each in (lower, lower.removesuffix("s")):
        if len(each) > 1 and each in _UNITS:
            return each
        if each in _SPELLINGS:
            return _SPELLINGS[each]
    return ""


def _whole(text: str) -> int:
    return int(text.replace(",", ""))
