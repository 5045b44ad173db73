"""Which parameters contradict each other, what an order may hold, and what cannot matter."""

from __future__ import annotations

import dataclasses

import pytest

from unspool.errors import BadRequest
from unspool.param_conflicts import GROUPS, ORDERS, STAGES, is_on, matters, stages_of
from unspool.params import DecodingParams


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"dynatemp_min": 0.5},
            "dynatemp_min and dynatemp_max go together; got dynatemp_min=0.5 and dynatemp_max=None",
        ),
        ({"dynatemp_max": 0.5}, "go together"),
        ({"dynatemp_min": 2, "dynatemp_max": 1}, "dynatemp_min is above dynatemp_max"),
        (
            {"dynatemp_min": 0, "dynatemp_max": 1, "edt_theta": 1},
            "got dynatemp_min=0.0 and edt_theta=1.0; keep one",
        ),
        ({"smoothing_factor": 1, "edt_theta": 1}, "got edt_theta=1.0 and smoothing_factor=1.0"),
        (
            {"smoothing_factor": 1, "temperature": 0.5},
            "replaces temperature; got temperature=0.5 and smoothing_factor=1.0; leave temperature at 1",
        ),
        ({"dynatemp_min": 0, "dynatemp_max": 1, "temperature": 2}, "dynatemp_min replaces temperature"),
        (
            {"mirostat": 2, "top_k": 5},
            "mirostat replaces every truncation; got mirostat=2 and top_k=5; keep one",
        ),
        ({"mirostat": 1, "adaptive_target": 0.5}, "got mirostat=1 and adaptive_target=0.5"),
        (
            {"min_tokens": 9, "max_tokens": 8},
            "min_tokens is above max_tokens; got min_tokens=9 and max_tokens=8",
        ),
        (
            {"allowed_token_ids": [1, 2], "banned_token_ids": [2, 1, 3]},
            "nothing that is allowed is not banned",
        ),
    ],
)
def test_a_contradiction_is_refused_with_both_values(values, words):
    with pytest.raises(BadRequest, match=words) as caught:
        DecodingParams(**values)
    assert caught.value.code == "conflicting_parameters"
    assert "; got " in str(caught.value)


@pytest.mark.parametrize(
    "values",
    [
        {"dynatemp_min": 1, "dynatemp_max": 1},
        {"edt_theta": 1, "temperature": 0.5},  # its T0
        {"smoothing_factor": 1, "temperature": 0},  # greedy: of no effect, and named by unused
        {"min_tokens": 8, "max_tokens": 8},
        {"min_tokens": 8, "max_tokens": None},
        {"allowed_token_ids": [1, 2], "banned_token_ids": [2]},
        {"mirostat": 2, "temperature": 0.7, "repetition_penalty": 1.1},
        {"adaptive_target": 0.5, "min_p": 0.05},
    ],
)
def test_what_goes_together_is_taken(values):
    assert DecodingParams(**values)


def test_a_loop_is_at_least_two():
    with pytest.raises(BadRequest, match="loop_min_count must be 0 or at least 2, got 1") as caught:
        DecodingParams(loop_min_count=1)
    assert caught.value.code == "bad_loop_min_count"


@pytest.mark.parametrize("order", [*ORDERS, ["top_k", "temperature"], [], ("penalties", "bias", "top_p")])
def test_an_order_is_a_name_or_a_list_of_stages(order):
    params = DecodingParams(order=order)
    assert params.order == (order if isinstance(order, str) else tuple(order))
    assert hash(params) == hash(params.replace())


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ("fastest", "order must be one of .*'transformers' or a list of stages, got 'fastest'"),
        (5, "order must be a name or a list of stages, got 5"),
        ({"top_k": 1}, "order must be a name or a list of stages"),
        (b"unspool", "order must be a name or a list of stages"),
        (["top_k", "top-p"], "order holds 'top-p'; the stages are penalties, temperature, repetition"),
        (["top_k", 3], "order holds 3; the stages are"),
        (["top_k", ["top_p"]], "order holds .'top_p'.; the stages are"),
        (["top_k", "vllm"], "order holds 'vllm'; the stages are"),
        (["vllm", "vllm"], "order holds 'vllm'; the stages are"),
        (["top_k", "temperature", "top_k"], "order names 'top_k' twice; keep one of them"),
        (["penalties", "presence"], "order names 'presence' twice: 'penalties' stands for it too; keep one"),
        (["edt", "temperature"], "order names 'edt' twice: 'temperature' stands for it too"),
    ],
)
def test_a_wrong_order_is_refused(order, words):
    with pytest.raises(BadRequest, match=words) as caught:
        DecodingParams(order=order)
    assert caught.value.code == "bad_order"


def test_a_stage_that_is_asked_for_and_not_in_the_order_is_refused():
    with pytest.raises(BadRequest) as caught:
        DecodingParams(top_p=0.9, top_k=5, order=["top_k"])
    assert str(caught.value) == (
        "top_p is 0.9 and order=('top_k',) leaves 'top_p' out; add it to the order, or leave top_p alone"
    )
    with pytest.raises(BadRequest, match="order='vllm' leaves 'xtc' out"):
        DecodingParams(xtc_probability=0.5, order="vllm")
    assert DecodingParams(temperature=0, order=["top_k"])  # greedy needs no stage of temperature


@pytest.mark.parametrize("name", ORDERS)
def test_a_named_order_holds_each_stage_once(name):
    stages = stages_of(name)
    assert len(set(stages)) == len(stages)
    assert set(stages) <= set(STAGES)


def test_groups_are_written_out_in_an_order():
    assert stages_of(["bias", "penalties", "top_k"]) == ("bias", *GROUPS["penalties"], "top_k")


def test_the_neutral_value_of_a_stage_is_the_default():
    defaults = DecodingParams()
    for stage, (parameter, neutral) in STAGES.items():
        assert getattr(defaults, parameter) == neutral
        assert not is_on(stage, defaults)


NEEDS_ANOTHER = {
    "dynatemp_exponent": (2, {"dynatemp_min": 0, "dynatemp_max": 1}),
    "edt_base": (0.5, {"edt_theta": 1}),
    "smoothing_curve": (2, {"smoothing_factor": 1}),
    "xtc_threshold": (0.2, {"xtc_probability": 0.5}),
    "mirostat_tau": (3, {"mirostat": 2}),
    "mirostat_eta": (0.2, {"mirostat": 2}),
    "adaptive_decay": (0.5, {"adaptive_target": 0.5}),
    "penalty_scope": ("all", {"presence_penalty": 1}),
    "penalty_window": (5, {"frequency_penalty": 1}),
    "penalty_exclude_ids": ((1,), {"repetition_penalty": 2}),
    "penalty_exclude_template": (True, {"repetition_penalty": 2}),
    "dry_base": (2, {"dry_multiplier": 1}),
    "dry_allowed_length": (3, {"dry_multiplier": 1}),
    "dry_window": (9, {"dry_multiplier": 1}),
    "dry_breakers": (("x",), {"dry_multiplier": 1}),
    "loop_max_length": (9, {"loop_min_count": 2}),
}


@pytest.mark.parametrize("name", NEEDS_ANOTHER)
def test_a_parameter_without_the_one_that_gives_it_a_meaning_is_named(name):
    value, others = NEEDS_ANOTHER[name]
    assert DecodingParams(**{name: value}).unused() == (name,)
    assert DecodingParams(**{name: value}, **others).unused() == ()


def test_at_temperature_zero_what_draws_or_truncates_is_named_and_the_rest_is_not():
    values = {
        "top_k": 5, "min_p": 0.1, "typical_p": 0.9, "seed": 1, "xtc_probability": 0.5, "xtc_threshold": 0.3,
        "repetition_penalty": 1.2, "penalty_window": 9, "dry_multiplier": 1, "dry_base": 2, "min_tokens": 3,
        "logit_bias": {1: 2}, "stop": ("x",), "stop_regex": ("y",),
    }  # fmt: skip
    params = DecodingParams(temperature=0, **values)
    assert set(params.unused()) == {"top_k", "min_p", "typical_p", "seed", "xtc_probability", "xtc_threshold"}
    with_kinds = DecodingParams(temperature=0, dynatemp_min=0.5, dynatemp_max=1, dynatemp_exponent=2)
    assert with_kinds.unused() == ("dynatemp_min", "dynatemp_max", "dynatemp_exponent")
    assert not matters("seed", params)


def test_every_field_is_in_the_class_docstring():
    words = DecodingParams.__doc__.split()
    assert [field.name for field in dataclasses.fields(DecodingParams) if field.name not in words] == []


def test_a_list_of_allowed_ids_that_is_empty_is_refused_for_itself():
    with pytest.raises(BadRequest, match="allowed_token_ids is empty, so that nothing could be chosen"):
        DecodingParams(allowed_token_ids=[])
