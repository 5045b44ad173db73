"""Typed, bounded values out of metadata, and the one-line refusals of everything else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unspool.errors import ModelFileError
from unspool.models.config_fields import Fields


def fields(**values) -> Fields:
    return Fields(Path("m.gguf"), {f"llama.{key}": value for key, value in values.items()}, "llama.")


@pytest.mark.parametrize("value", [7, np.uint32(7), 7.0, [7, 7, 7], np.array([7, 7]), (7,)])
def test_a_whole_number_is_read_however_it_is_stored(value):
    assert fields(n=value).integer("n", 1, 10) == 7


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (0, "0 is out of range [1, 10]"),
        (11, "11 is out of range [1, 10]"),
        (-(2**70), "is out of range [1, 10]"),
        (2.5, "2.5 is not a whole number"),
        (float("nan"), "nan is not a whole number"),
        ("7", "'7' is not a whole number"),
        (True, "True is not a whole number"),
        ([1, 2], "[1, 2] differs by layer"),
        ([], "[] differs by layer"),
        ({}, "{} is not a whole number"),
        ("x" * 500, "..."),
    ],
)
def test_anything_else_is_refused_by_file_key_and_value(value, problem):
    with pytest.raises(ModelFileError, match=r"^m\.gguf: llama\.n: ") as refusal:
        fields(n=value).integer("n", 1, 10)
    assert problem in str(refusal.value)
    assert len(str(refusal.value)) < 150
    assert refusal.value.field == "llama.n"


def test_a_missing_value_is_refused_unless_there_is_a_default():
    with pytest.raises(ModelFileError, match=r"m\.gguf: llama\.n: is missing"):
        fields().integer("n", 1, 10)
    assert fields().integer("n", 1, 10, default=3) == 3
    assert fields(n=None).integer("n", 1, 10, default=3) == 3


@pytest.mark.parametrize("value", [0.5, np.float32(0.5)])
def test_a_number_is_read_as_a_float(value):
    assert fields(x=value).number("x", 0, 1) == 0.5
    assert fields(x=1).number("x", 0, 1) == 1.0


@pytest.mark.parametrize("value", [float("inf"), float("nan"), -0.1, 1.1, "0.5", True, None, [0.1, 0.2]])
def test_a_number_that_is_not_finite_or_out_of_range_is_refused(value):
    with pytest.raises(ModelFileError, match=r"llama\.x"):
        fields(x=value).number("x", 0, 1)


@pytest.mark.parametrize("value", [None, 0, 0.0])
def test_an_optional_number_can_be_off_in_three_ways(value):
    assert fields(x=value).optional_number("x", 0, 9) is None
    assert fields().optional_number("x", 0, 9) is None
    assert fields(x=5).optional_number("x", 0, 9) == 5.0


def test_text_and_flags_are_not_guessed():
    assert fields(t="yes").text("t") == "yes"
    assert fields(t=True).flag("t", False) is True
    assert fields().flag("t", True) is True
    with pytest.raises(ModelFileError, match="1 is not text"):
        fields(t=1).text("t")
    with pytest.raises(ModelFileError, match="'yes' is not true or false"):
        fields(t="yes").flag("t", False)


def test_a_sequence_has_one_entry_a_layer():
    assert fields(s=[1, 0]).sequence("s", 2) == [1, 0]
    with pytest.raises(ModelFileError, match="has 2 entries for 3 layers"):
        fields(s=[1, 0]).sequence("s", 3)
    with pytest.raises(ModelFileError, match="'ab' is not a list"):
        fields(s="ab").sequence("s", 2)


def test_a_nested_table_is_named_by_its_place():
    nested = Fields(Path("config.json"), {"rope_scaling": {"factor": "x"}}).table("rope_scaling")
    with pytest.raises(ModelFileError, match=r"config\.json: rope_scaling\.factor: 'x' is not a number"):
        nested.number("factor", 0, 1)
    assert not Fields(Path("config.json"), {}).table("rope_scaling").has("factor")
    with pytest.raises(ModelFileError, match="3 is not a table"):
        Fields(Path("config.json"), {"rope_scaling": 3}).table("rope_scaling")
