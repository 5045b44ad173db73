"""vLLM's names."""

from __future__ import annotations

import pytest

from unspool.errors import BadRequest
from unspool.params import DecodingParams

from_vllm = DecodingParams.from_vllm


def notes(changes):
    return {change.their_name: change.note for change in changes}


def test_sampling_params_are_read_with_vllms_order_and_limit():
    params, changes = from_vllm({})
    assert params == DecodingParams(order="vllm", max_tokens=16)
    assert notes(changes) == {"max_tokens": "what vLLM takes when it is not given"}
    params, changes = from_vllm(
        {
            "n": 1,
            "temperature": 0.7,
            "top_k": -1,
            "top_p": 0.9,
            "min_p": 0.05,
            "repetition_penalty": 1.1,
            "frequency_penalty": 0.1,
            "presence_penalty": 0.2,
            "seed": -1,
            "stop": ["a"],
            "stop_token_ids": [3],
            "bad_words": ["x"],
            "allowed_token_ids": [1, 2],
            "logit_bias": {5: 1.5},
            "min_tokens": 2,
            "max_tokens": 9,
            "ignore_eos": True,
            "include_stop_str_in_output": True,
            "logprobs": 0,
            "prompt_logprobs": 1,
            "skip_special_tokens": True,
        }
    )
    assert params == DecodingParams(
        order="vllm",
        temperature=0.7,
        top_p=0.9,
        min_p=0.05,
        repetition_penalty=1.1,
        frequency_penalty=0.1,
        presence_penalty=0.2,
        stop="a",
        stop_token_ids=[3],
        bad_words=["x"],
        allowed_token_ids=[1, 2],
        logit_bias={5: 1.5},
        min_tokens=2,
        max_tokens=9,
        ignore_eos=True,
        include_stop=True,
        logprobs=0,
        prompt_logprobs=1,
    )
    assert set(notes(changes)) == {"n", "seed", "skip_special_tokens"}


def test_no_limit_is_said_with_none():
    assert from_vllm({"max_tokens": None})[0].max_tokens is None
    assert DecodingParams(order="vllm", max_tokens=None).to_vllm()[0]["max_tokens"] is None


@pytest.mark.parametrize(("given", "read"), [(0, 0), (1e-6, 0), (1e-4, 0.01), (0.0099, 0.01), (0.01, 0.01)])
def test_tiny_temperatures_become_what_they_become_there(given, read):
    params, changes = from_vllm({"temperature": given})
    assert params.temperature == read
    assert ("temperature" in notes(changes)) == (given != read)


def test_a_bias_is_clamped_as_there_and_told():
    params, changes = from_vllm({"logit_bias": {"5": 150, "6": -100}})
    assert params.logit_bias == ((5, 100.0), (6, -100.0))
    assert notes(changes)["logit_bias"] == "clamped to ±100, as there"
    assert from_vllm({"logit_bias": {5: float("-inf")}})[0].logit_bias == ((5, -100.0),)
    for value in ("much", float("nan")):
        with pytest.raises(BadRequest, match="logit_bias of 5"):
            from_vllm({"logit_bias": {5: value}})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"n": 2}, "several answers are asked for"),
        ({"use_beam_search": True}, "beams are a search of their own"),
        ({"temperature": 2.1}, r"in \[0, 2\], got 2.1; vLLM's temperature ends at 2"),
        ({"top_k": -2}, "top_k must be"),
        ({"logprobs": -1}, "whole vocabulary is too much"),
        ({"truncate_prompt_tokens": 5}, "the prompt is cut by who writes it"),
        ({"include_stop_str_in_output": 1}, "include_stop_str_in_output: include_stop must be True or False"),
    ],
)
def test_what_cannot_be_is_refused(given, words):
    with pytest.raises(BadRequest, match=words):
        from_vllm(given)


def test_what_is_off_is_dropped_by_name():
    _, changes = from_vllm({"use_beam_search": False, "max_tokens": 1})
    assert notes(changes) == {"use_beam_search": "off, and so of no effect"}


def test_another_order_than_vllms_cannot_be_said():
    assert [change.our_name for change in DecodingParams().to_vllm()[1]] == ["order"]


def test_a_temperature_that_vllm_would_raise_is_told_as_lost():
    for temperature in (1e-12, 0.009):
        theirs, lost = DecodingParams(order="vllm", temperature=temperature).to_vllm()
        assert "temperature" not in theirs
        assert [change.our_name for change in lost] == ["temperature"]
    assert DecodingParams(order="vllm", temperature=0).to_vllm()[0]["temperature"] == 0
