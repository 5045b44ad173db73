"""Single parameter values: what is taken, in what form it is kept, and what a refusal says."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from types import MappingProxyType

import numpy as np
import pytest

from unspool import param_checks as checks
from unspool.errors import BadRequest
from unspool.param_checks import Range
from unspool.params import DecodingParams


@pytest.mark.parametrize(
    ("allowed", "words"),
    [
        (Range(False, 0, 1, ""), "a number in [0, 1]"),
        (Range(False, 0, 1, "", open_low=True, open_high=True), "a number in (0, 1)"),
        (Range(True, 1, None, ""), "a whole number at least 1"),
        (Range(False, 0, None, "", open_low=True, optional=True), "a number above 0 or None"),
        (Range(True, 0, 2**64 - 1, ""), "a whole number in [0, 2**64)"),
    ],
)
def test_a_range_reads_as_one_writes_it(allowed, words):
    assert str(allowed) == words


@pytest.mark.parametrize(
    ("allowed", "inside", "outside"),
    [
        (Range(False, 0, 1, ""), [0, 0.5, 1, True + 0, Fraction(1, 4), np.float32(0.25)], [-1e-9, 1 + 1e-9]),
        (Range(False, 0, 1, "", open_low=True), [1e-300, 1], [0, -0.0]),
        (Range(False, 0, 1, "", open_high=True), [0, 1 - 1e-9], [1, 1.0]),
        (Range(True, 1, None, ""), [1, 2**53 - 1, np.uint8(3)], [0, 1.0, "1", 2**53, 10**5000]),
        (Range(False, 0, None, ""), [0, 1e308, np.float32(0.25)], [math.inf, math.nan, -1, 10**400]),
        (Range(False, 0, 1, "", optional=True), [None], ["None"]),
        (Range(False, 0, 1, ""), [], [None, True, "0.5", [0.5], 0.5j, b"1", math.nan, -math.inf]),
    ],
)
def test_a_range_takes_what_is_inside_and_nothing_else(allowed, inside, outside):
    for value in inside:
        assert allowed.check("x", value) == value
    for value in outside:
        with pytest.raises(BadRequest) as caught:
            allowed.check("x", value)
        assert caught.value.code == "bad_x"


def test_a_flag_is_true_or_false():
    assert checks.flag("x", True) is True
    assert checks.flag("x", False) is False
    for value in (1, 0, "true", None, np.True_):
        with pytest.raises(BadRequest, match="x must be True or False, got"):
            checks.flag("x", value)


def test_a_choice_is_one_of_its_words():
    assert checks.one_of("x", "b", ("a", "b")) == "b"
    for value in ("c", None, ["a"], 1):
        with pytest.raises(BadRequest, match="x must be one of 'a', 'b', got"):
            checks.one_of("x", value, ("a", "b"))


def test_texts_are_kept_as_a_tuple():
    assert checks.texts("x", "one") == ("one",)
    assert checks.texts("x", ["a", "b"]) == checks.texts("x", iter("ab")) == ("a", "b")
    assert checks.texts("x", ()) == ()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (5, "must be a string or a list of strings, got 5"),
        (None, "must be a string or a list of strings"),
        (b"x", "must be a string or a list of strings"),
        ({"a": 1}, "must be a string or a list of strings"),
        ("", "holds ''; each x must be a non-empty string"),
        (["a", 3], "holds 3; each x must be a non-empty string"),
        (["a\ud800"], "half a surrogate pair"),
    ],
)
def test_what_is_no_text_is_refused(value, words):
    with pytest.raises(BadRequest, match=words) as caught:
        checks.texts("x", value)
    assert caught.value.code == "bad_x"


def test_patterns_are_texts_that_can_be_followed():
    assert checks.patterns("x", r"\d+") == (r"\d+",)
    with pytest.raises(BadRequest, match=r"x holds '\(', which is no pattern to stop at: missing \)"):
        checks.patterns("x", ["a", "("])


def test_token_ids_are_kept_as_a_tuple_of_plain_numbers():
    ids = checks.token_ids("x", np.array([3, 4]), "")
    assert ids == (3, 4)
    assert {type(i) for i in ids} == {int}
    assert checks.token_ids("x", 7, "") == (7,)
    assert checks.token_ids("x", {5}, "") == (5,)


@pytest.mark.parametrize("value", ["12", b"12", None, {"a": 1}, 1.5, True, [-1], [1.0], [False], ["1"]])
def test_what_is_no_token_id_is_refused_with_a_way_out(value):
    with pytest.raises(BadRequest, match="x ") as caught:
        checks.token_ids("x", value, "use y")
    assert caught.value.code == "bad_x"
    if isinstance(value, list):
        assert str(caught.value).endswith("; use y")


def test_biases_come_as_a_mapping_or_as_pairs():
    expected = ((3, 1.5), ("hello", -2.0), (4, False))
    for value in (
        {3: 1.5, "hello": -2, 4: False},
        MappingProxyType({3: 1.5, "hello": -2, 4: False}),
        [(3, 1.5), ["hello", np.float32(-2)], (np.int64(4), False)],
        expected,
    ):
        assert checks.biases("x", value) == expected
    assert checks.biases("x", {3: 100, 4: -100}) == ((3, 100.0), (4, -100.0))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (5, "must map token ids or texts to numbers, got 5"),
        ("ab", "must map token ids or texts to numbers"),
        (None, "must map token ids or texts to numbers"),
        ([3], "holds 3, which is no pair"),
        (["ab"], "holds 'ab', which is no pair"),
        ([(1, 2, 3)], "which is no pair of a token and a number"),
        ({"": 1}, "names the token ''; name each by an id of at least 0 or by its text"),
        ({-1: 1}, "names the token -1"),
        ({True: 1}, "names the token True"),
        ({1.5: 1}, "names the token 1.5"),
        ({"\udc00": 1}, "half a surrogate pair"),
        ([(3, 1), (3, 2)], "names 3 twice; keep one of them"),
        ({3: math.inf}, r"x of 3 must be a number in \[-100, 100\], got inf; False bans the token"),
        ({3: -math.inf}, "got -inf; False bans the token"),
        ({3: math.nan}, "got nan"),
        ({3: 100.5}, "got 100.5"),
        ({3: True}, "got True"),
        ({3: "1"}, "got '1'"),
        ({3: None}, "got None"),
        ({3: 10**400}, "must be a number in"),
    ],
)
def test_what_is_no_bias_is_refused(value, words):
    with pytest.raises(BadRequest, match=words) as caught:
        checks.biases("x", value)
    assert caught.value.code == "bad_x"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "check", [checks.texts, checks.biases, lambda name, v: checks.token_ids(name, v, "")]
)
def test_an_array_of_no_dimensions_is_no_list(check):
    with pytest.raises(BadRequest, match=r"^x must "):
        check("x", np.array(0.5))


@pytest.mark.parametrize("huge", [2**53, 10**5000], ids=["short", "long"])
def test_a_number_that_no_text_reaches_is_refused_and_can_be_printed(huge):
    """Beyond 2**53 a whole number is not exact in JSON, and from some length on Python does not print it."""
    for check in (
        lambda: Range(True, 0, None, "").check("x", huge),
        lambda: checks.token_ids("x", [huge], ""),
        lambda: checks.biases("x", {huge: 1}),
    ):
        with pytest.raises(BadRequest, match=r"^x must be below 2\*\*53, got "):
            check()


def test_a_numpy_number_is_compared_without_a_warning():
    assert Range(False, 0, None, "").check("x", np.float32(0.5)) == 0.5


def test_a_pattern_too_long_to_parse_is_refused_at_once():
    with pytest.raises(BadRequest, match="it has 1000000 characters, and 20000 is the most"):
        checks.patterns("x", "a" * 10**6)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"bad_words": ["a"] * 4097},
            "bad_words holds 4097 texts and 4096 at most are taken; leave some out",
        ),
        ({"bad_words": ["a" * 257]}, "of 257 characters and 256 at most are taken; shorten it"),
        ({"dry_breakers": ["a"] * 129}, "dry_breakers holds 129 texts and 128 at most are taken"),
        ({"dry_breakers": ["x", "b" * 65]}, "of 65 characters and 64 at most are taken"),
    ],
)
def test_texts_that_are_looked_for_at_every_step_have_a_limit(given, message):
    with pytest.raises(BadRequest, match=re.escape(message)):
        DecodingParams(**given)
    (name,) = given
    texts = given[name][:64] if len(given[name]) > 2 else [text[:64] for text in given[name]]
    assert getattr(DecodingParams(**{name: texts}), name) == tuple(texts)
