"""DecodingParams: what is accepted, what is refused, and how the refusal reads."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import numpy as np
import pytest

from unspool.errors import BadRequest, brief
from unspool.params import RANGES, DecodingParams


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("temperature", [0, 0.0, 1e-9, 1, 100, np.float32(0.5), np.int64(2)]),
        ("top_k", [0, 1, 10**9, np.int32(4)]),
        ("top_p", [1e-9, 0.5, 1, 1.0]),
        ("min_p", [0, 0.05, 1]),
        ("seed", [None, 0, 2**64 - 1]),
        ("max_tokens", [None, 1, 10**9]),
    ],
)
def test_the_ends_of_each_range_are_accepted(field, values):
    for value in values:
        assert getattr(DecodingParams(**{field: value}), field) == value


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("temperature", [-0.1, 100.1, float("nan"), float("inf"), True, "1", None, 10**400]),
        ("top_k", [-1, 1.5, 2.0, False, "3", None]),
        ("top_p", [0, -0.1, 1.4, float("nan"), True, None]),
        ("min_p", [-0.1, 1.0001, float("nan"), True, None]),
        ("seed", [-1, 2**64, 1.0, True, "7"]),
        ("max_tokens", [0, -5, 3.0, True, "10", float("inf")]),
    ],
)
def test_anything_else_is_refused_with_field_value_range_and_way_out(field, values):
    for value in values:
        with pytest.raises(BadRequest) as caught:
            DecodingParams(**{field: value})
        message = str(caught.value)
        assert caught.value.code == f"bad_{field}"
        assert message.startswith(f"{field} must be a ")
        assert f"got {brief(value)}" in message
        assert str(BadRequest(RANGES[field].way_out)) in message
        assert "\n" not in message


def test_a_refusal_reads_like_this():
    with pytest.raises(BadRequest) as caught:
        DecodingParams(top_p=1.4)
    assert str(caught.value) == (
        "top_p must be a number in (0, 1], got 1.4; 1 turns it off; for greedy decoding set temperature=0"
    )


def test_numbers_are_kept_as_plain_python_numbers():
    params = DecodingParams(temperature=1, top_k=np.int64(3), top_p=np.float64(0.5))
    assert (type(params.temperature), type(params.top_k), type(params.top_p)) == (float, int, float)


def test_one_stop_string_is_a_list_of_one():
    assert DecodingParams(stop="END").stop == ("END",)
    assert DecodingParams(stop=["a", "b"]).stop == ("a", "b")
    assert DecodingParams(stop_token_ids=7).stop_token_ids == (7,)
    assert DecodingParams(stop_token_ids=[np.int64(7), 8]).stop_token_ids == (7, 8)


@pytest.mark.parametrize("stop", ["", [""], ["a", 3], 5, b"x", {"a": 1}, None, ["\ud800"]])
def test_a_stop_that_is_no_text_is_refused(stop):
    with pytest.raises(BadRequest, match="stop") as caught:
        DecodingParams(stop=stop)
    assert caught.value.code == "bad_stop"


@pytest.mark.parametrize("ids", ["12", [-1], [1.5], [True], None, {"a": 1}, True])
def test_stop_token_ids_that_are_no_ids_are_refused(ids):
    with pytest.raises(BadRequest, match="stop_token_ids") as caught:
        DecodingParams(stop_token_ids=ids)
    assert caught.value.code == "bad_stop_token_ids"


@pytest.mark.parametrize("field", ["ignore_eos", "include_stop"])
def test_switches_are_true_or_false(field):
    for value in (1, "yes", None):
        with pytest.raises(BadRequest, match="must be True or False"):
            DecodingParams(**{field: value})


def test_parameters_are_frozen_hashable_and_given_by_name():
    params = DecodingParams(stop=["x"])
    with pytest.raises(dataclasses.FrozenInstanceError):
        params.temperature = 2
    assert hash(params) == hash(DecodingParams(stop="x"))
    with pytest.raises(TypeError):
        DecodingParams(0.5)
    with pytest.raises(TypeError):
        DecodingParams(tempreature=0.5)


def test_from_dict_offers_the_nearest_name():
    with pytest.raises(BadRequest, match="no parameter 'top-p'; did you mean 'top_p'") as caught:
        DecodingParams.from_dict({"top-p": 0.5})
    assert caught.value.code == "unknown_parameter"
    with pytest.raises(BadRequest, match="did you mean 'temperature'"):
        DecodingParams.from_dict({"tempreature": 1})
    with pytest.raises(BadRequest, match="known names are temperature, dynatemp_min"):
        DecodingParams.from_dict({"zzzzzz": 1})
    for values in (None, ["top_p"], "top_p"):
        with pytest.raises(BadRequest, match="must be names with values"):
            DecodingParams.from_dict(values)


def test_a_dictionary_and_back_is_the_same():
    params = DecodingParams(temperature=0.5, stop=["a"], stop_token_ids=[3], seed=9)
    assert params.to_dict()["stop"] == ["a"]
    assert DecodingParams.from_dict(params.to_dict()) == params


def test_replace_checks_like_a_new_one():
    assert DecodingParams().replace(top_k=3).top_k == 3
    with pytest.raises(BadRequest, match="top_k must be"):
        DecodingParams().replace(top_k=-3)
    with pytest.raises(BadRequest, match="did you mean 'top_k'"):
        DecodingParams().replace(topk=3)


def test_what_cannot_matter_at_temperature_zero_is_named():
    assert DecodingParams(temperature=0, seed=5, top_p=0.9).unused() == ("top_p", "seed")
    assert DecodingParams(temperature=0).unused() == ()
    assert DecodingParams(temperature=0.5, seed=5).unused() == ()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"top_p": 1.4}, ["top_p must be a number in (0, 1], got 1.4", "1 turns it off"]),
        ({"temperature": "hot"}, ["temperature must be a number in [0, 100], got 'hot'", "0 is greedy"]),
        ({"temperature": -1}, ["temperature must be a number in [0, 100], got -1", "0 is greedy"]),
        (
            {"temperature": 10**5000},
            ["temperature must be a number in [0, 100], got an int too long to write"],
        ),
        ({"top_k": 2.5}, ["top_k must be a whole number at least 0, got 2.5", "0 turns it off"]),
        ({"max_token": 5}, ["there is no parameter 'max_token'", "did you mean 'max_tokens'?"]),
        ({"Top-P": 0.5}, ["there is no parameter 'Top-P'", "did you mean 'top_p'?"]),
        ({"order": ["top_k", "top_k"]}, ["order names 'top_k' twice", "keep one of them"]),
        ({"order": ["topk"]}, ["order holds 'topk'", "the stages are", "top_k"]),
        ({"order": "vLLM"}, ["order must be one of", "'vllm'", "got 'vLLM'"]),
        (
            {"logit_bias": {5: float("inf")}},
            ["logit_bias of 5", "in [-100, 100], got inf", "False bans the token"],
        ),
        (
            {"logit_bias": {"yes": 200}},
            ["logit_bias of 'yes'", "in [-100, 100], got 200", "False bans the token"],
        ),
        (
            {"repetition_penalty": 0},
            ["repetition_penalty must be a number in (0, 100], got 0", "1 turns it off"],
        ),
        (
            {"frequency_penalty": 3},
            ["frequency_penalty must be a number in [-2, 2], got 3", "0 turns it off"],
        ),
        (
            {"seed": -1},
            ["seed must be a whole number in [0, 2**64) or None, got -1", "None draws a fresh seed"],
        ),
        ({"max_tokens": 0}, ["max_tokens must be a whole number at least 1 or None, got 0", "LLM.tokenize"]),
        ({"min_tokens": 600}, ["min_tokens is above max_tokens", "min_tokens=600 and max_tokens=512"]),
        ({"stop": 5}, ["stop must be a string or a list of strings, got 5"]),
        ({"stop": [5]}, ["stop holds 5", "for ids use stop_token_ids"]),
        ({"stop_token_ids": ["x"]}, ["stop_token_ids holds 'x'", "for text use stop"]),
        ({"stop_regex": "["}, ["stop_regex holds '['", "unterminated character set at position 0"]),
        ({"deadline_s": 0}, ["deadline_s must be a number above 0 or None, got 0", "None sets no deadline"]),
        ({"loop_min_count": 1}, ["loop_min_count must be 0 or at least 2, got 1"]),
        ({"loop_max_length": 10**6}, ["loop_max_length must be a whole number in [1, 4096], got 1000000"]),
        ({"mirostat": 3}, ["mirostat must be a whole number in [0, 2], got 3", "0 turns it off"]),
        ({"penalty_scope": "both"}, ["penalty_scope must be one of 'default', 'all'", "got 'both'"]),
        ({"ignore_eos": "no"}, ["ignore_eos must be True or False, got 'no'"]),
        ({"logprobs": -1}, ["logprobs must be a whole number in [0, 1000] or None, got -1"]),
    ],
)
def test_a_mistake_is_told_with_the_value_the_range_and_the_way_out(values, words):
    with pytest.raises(BadRequest) as caught:
        DecodingParams.from_dict(values)
    message = str(caught.value)
    assert [word for word in words if word not in message] == []
    assert "\n" not in message
    assert len(message) < 400
    assert caught.value.exit_code == 2


def test_they_print_as_the_call_that_makes_them():
    assert repr(DecodingParams()) == "DecodingParams()"
    assert repr(DecodingParams(top_k=5, stop="x")) == "DecodingParams(top_k=5, stop=('x',))"
    params = DecodingParams(temperature=0, logit_bias={"a": False, 3: 1}, dry_breakers=["\n"], order="vllm")
    assert eval(repr(params)) == params


def test_an_unknown_name_is_refused_with_the_nearest_one_however_it_is_given():
    for given in (lambda: DecodingParams(tempreture=1), lambda: DecodingParams().replace(tempreture=1)):
        with pytest.raises(
            BadRequest, match="no parameter 'tempreture'; did you mean 'temperature'"
        ) as caught:
            given()
        assert caught.value.code == "unknown_parameter"


def test_parameters_survive_copying_and_pickling():
    params = DecodingParams(temperature=0.3, stop="x", logit_bias={5: 1.5})
    for copied in (copy.copy(params), copy.deepcopy(params), pickle.loads(pickle.dumps(params))):
        assert copied == params
