"""The number that an answer comes to, compared exactly or within a tolerance."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from unspool.errors import BadRequest, brief, named
from unspool.light_dataclass import dataclass
from unspool.search.verifiers.base import Alone, Verdict
from unspool.search.verifiers.quantity import Quantity, known_unit, quantities
from unspool.types import Completion

# Where answers mark their result: \boxed{42}, and #### 42 as in GSM8K (Cobbe et al. 2021).
_MARKED: Final = re.compile(r"\\boxed\s*\{((?:[^{}]|\{[^{}]*\})*)\}|####\s*(.+)")
_MAX_CHARACTERS: Final = 100_000  # of an answer, its last; a number longer than Python reads is cut with them


@dataclass(frozen=True, slots=True)
class Arithmetic(Alone):
    r"""Accepts an answer whose result is the expected one; without `expected` it only finds the result.

    The result is the last number in the last \boxed{...} or behind the last ####, else the last number of
    the text. Numbers are read exactly: 1,234.5, 3/4, 1 1/2, \frac{3}{4}, 2e-3, 50 %, $12. A unit is
    converted (0.5 km is 500 m); one that measures something else is refused, a missing one is forgiven.

    `tolerance` is the largest difference that counts as equal, `relative_tolerance` the same as a share of
    the expected number; the larger of the two holds, and both are 0 unless given.
    """

    expected: str | int | float | None = None
    tolerance: float = 0.0
    relative_tolerance: float = 0.0
    unit: str = ""  # what results are told in, and what a bare number is taken to be in

    def __post_init__(self) -> None:
        for name in ("tolerance", "relative_tolerance"):
            value = getattr(self, name)
            if (
                isinstance(value, bool)
                or not isinstance(value, (int, float))
                or not 0 <= value < float("inf")
            ):
                raise BadRequest(
                    f"{name} must be a number of at least 0, got {brief(value)}", code="bad_verifier"
                )
        if self.unit and known_unit(self.unit) is None:
            raise BadRequest(
                f"unit must be one such as km, h, % or $, got {brief(self.unit)}",
                way_out="leave it out for any",
                code="bad_verifier",
            )
        if self.expected is not None and len(_read(str(self.expected))) != 1:
            raise BadRequest(
                f"{named('expected')} must be one number, got {brief(self.expected)}",
                way_out="for example 42, '3/4' or '5 km'",
                code="bad_verifier",
            )

    def __call__(self, prompt: str, completion: Completion) -> Verdict:
        result = result_of(completion.text)
        if result is None:
            return Verdict(0.0, None if self.expected is None else False, detail="no number")
        wanted = None if self.expected is None else _read(str(self.expected))[0]
        unit = known_unit(self.unit) or ("" if wanted is None else wanted.unit)
        value = result.in_unit(unit)
        # One spelling for each result, so that votes for it add up.
        answer = str(result if value is None else Quantity(value, unit))
        if wanted is None:
            return Verdict(
                1.0, None, answer if self.unit else str(Quantity(result.value)), f"comes to {result}"
            )
        is_right = value is not None and self._is_right(Quantity(value, unit), wanted)
        return Verdict(float(is_right), is_right, answer, f"{result}, expected {wanted}")

    def _is_right(self, result: Quantity, wanted: Quantity) -> bool:
        value = result.in_unit(wanted.unit)
        if value is None:
            return False
        slack = max(Fraction(self.tolerance), Fraction(self.relative_tolerance) * abs(wanted.value))
        return abs(value - wanted.value) <= slack


def result_of(text: str) -> Quantity | None:
    """The quantity that a text comes to."""
    text = text[-_MAX_CHARACTERS:]
    marked = [next(part for part in match.groups() if part is not None) for match in _MARKED.finditer(text)]
    for where in (marked[-1] if marked else "", text):
        if found := _read(where):
            return found[-1]
    return None


def _read(text: str) -> list[Quantity]:
    """All quantities, or none where one has more digits than Python reads."""
    try:
        return quantities(text)
    except ValueError:
        return []
