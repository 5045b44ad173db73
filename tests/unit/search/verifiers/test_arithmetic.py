"""The number that an answer comes to."""

from __future__ import annotations

import pytest
from answers import answer

from unspool.errors import BadRequest
from unspool.search.verifiers.arithmetic import Arithmetic, result_of


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It is 42.", "42"),
        ("1,234.5", "1234.5"),
        ("Half of 3 is 1 1/2", "1.5"),
        ("3/4", "0.75"),
        ("-1/8", "-0.125"),
        ("1/3", "1/3"),
        ("100", "100"),
        ("0.05", "0.05"),
        ("-0.5", "-0.5"),
        ("1/1024", "1/1024"),
        (r"so \frac{3}{4}", "0.75"),
        ("½", "0.5"),
        ("1½ km", "1.5 km"),
        ("-5", "-5"),
        ("−5", "-5"),
        ("8 - 3 = 5", "5"),
        ("8-3", "3"),
        ("1e3", "1000"),
        ("x = .5", "0.5"),
        ("$12.50", "12.5 $"),
        ("-$5", "-5 $"),
        ("12 dollars", "12 $"),
        ("50%", "50 %"),
        ("10 apples", "10"),
        ("5 feet", "5 ft"),
        ("**36**", "36"),
        (r"\boxed{7} and then 8", "7"),
        (r"\boxed{1} no, \boxed{\frac{1}{2}}", "0.5"),
        ("so 3\n#### 1,000\nby the way, 5", "1000"),
        ("7 and 1/0", "7"),
        (r"\boxed{none}, but 3", "3"),
        ("none", "None"),
        ("9" * 5000, "None"),
    ],
)
def test_the_result_is_marked_or_last(text, found):
    assert str(result_of(text)) == found


@pytest.mark.parametrize(
    ("expected", "text", "is_right"),
    [
        (42, "42", True),
        ("42", "42.0", True),
        (0.5, "1/2", True),
        ("1/3", "0.333", False),
        ("500 m", "0.5 km", True),
        ("500 m", "500", True),
        ("500", "500 m", True),
        ("500 m", "500 kg", False),
        ("90 min", "1.5 hours", True),
        ("25%", "25 percent", True),
        (7, "no idea", False),
    ],
)
def test_equal_is_exact_and_units_convert(expected, text, is_right):
    verdict = Arithmetic(expected)("", answer(text))
    assert (verdict.accepted, verdict.score) == (is_right, is_right)


def test_a_tolerance_is_absolute_or_relative_and_the_larger_holds():
    close = answer("3.14")
    assert Arithmetic("3.14159")("", close).accepted is False
    assert Arithmetic("3.14159", tolerance=0.002)("", close).accepted is True
    assert Arithmetic("3.14159", relative_tolerance=0.001)("", close).accepted is True
    assert Arithmetic("3.14159", tolerance=0.001, relative_tolerance=1e-6)("", close).accepted is False


def test_without_an_expected_number_the_result_is_only_found():
    verdict = Arithmetic()("", answer("it costs $12"))
    assert (verdict.accepted, verdict.answer) == (None, "12")
    assert Arithmetic()("", answer("nothing")).answer is None


def test_votes_for_one_quantity_are_spelled_alike():
    in_km = Arithmetic(unit="kilometers")
    assert {in_km("", answer(text)).answer for text in ("0.5 km", "500 m", "1/2")} == {"0.5 km"}
    assert in_km("", answer("5 kg")).answer == "5 kg"


@pytest.mark.parametrize(
    "settings",
    [
        {"expected": "many"},
        {"expected": "1 or 2"},
        {"tolerance": -1},
        {"tolerance": float("inf")},
        {"relative_tolerance": "0.1"},
        {"unit": "apples"},
    ],
)
def test_what_is_no_number_is_refused(settings):
    with pytest.raises(BadRequest):
        Arithmetic(**settings)
