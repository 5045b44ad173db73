"""OpenAI's and Anthropic's names."""

from __future__ import annotations

import pytest

from unspool.errors import BadRequest
from unspool.params import DecodingParams

from_openai = DecodingParams.from_openai
from_anthropic = DecodingParams.from_anthropic


def notes(changes):
    return {change.their_name: change.note for change in changes}


def test_a_chat_request_is_read():
    params, changes = from_openai(
        {
            "model": "m",
            "messages": [],
            "temperature": 1.7,
            "top_p": 0.9,
            "frequency_penalty": 0.5,
            "presence_penalty": -0.5,
            "logit_bias": {"123": 1.5, "7": -3},
            "stop": "END",
            "seed": 4,
            "max_completion_tokens": 9,
            "logprobs": True,
            "top_logprobs": 3,
            "n": 1,
            "user": None,
        }
    )
    assert params == DecodingParams(
        temperature=1.7,
        top_p=0.9,
        frequency_penalty=0.5,
        presence_penalty=-0.5,
        logit_bias={123: 1.5, 7: -3},
        stop="END",
        seed=4,
        max_tokens=9,
        logprobs=3,
    )
    assert set(notes(changes)) == {"model", "messages", "n"}


def test_best_of_1_is_accepted_and_more_is_refused_with_the_reason():
    """Clients send best_of=1 on every request."""
    params, changes = from_openai({"best_of": 1, "n": 1, "max_tokens": 4})
    assert params == DecodingParams(max_tokens=4)
    assert set(notes(changes)) == {"best_of", "n"}
    for name, value in (("best_of", 2), ("n", 3), ("n", "1"), ("n", 0), ("n", True)):
        with pytest.raises(BadRequest, match=f"OpenAI: {name}=.*several answers are asked for") as caught:
            from_openai({name: value})
        assert caught.value.code == f"bad_{name}"


def test_temperature_ends_at_2_there_and_at_1_with_anthropic():
    with pytest.raises(BadRequest, match=r"temperature must be a number in \[0, 2\], got 2.5; OpenAI's"):
        from_openai({"temperature": 2.5})
    with pytest.raises(BadRequest, match=r"temperature must be a number in \[0, 1\], got 1.5; Anthropic's"):
        from_anthropic({"temperature": 1.5})
    assert DecodingParams(temperature=3).to_openai()[1][0].our_name == "temperature"


def test_anthropics_temperature_is_not_scaled():
    params, changes = from_anthropic({"temperature": 0.5, "max_tokens": 5})
    assert params == DecodingParams(temperature=0.5, max_tokens=5)
    assert notes(changes) == {"temperature": "not scaled: 1 is the model's own in both"}


def test_an_answer_without_a_limit_ends_where_theirs_would():
    assert from_openai({"messages": []})[0].max_tokens is None
    assert from_openai({"prompt": "x"})[0].max_tokens == 16
    assert from_openai({"messages": [], "max_tokens": None})[0].max_tokens is None
    params, changes = from_anthropic({})
    assert params.max_tokens == 512
    assert notes(changes) == {"max_tokens": "Anthropic wants one; this is ours"}


def test_log_probabilities_are_asked_for_in_two_ways():
    for given, expected in (
        ({"logprobs": True}, 0),
        ({"logprobs": True, "top_logprobs": 5}, 5),
        ({"logprobs": False}, None),
        ({"logprobs": False, "top_logprobs": 0}, None),
        ({"top_logprobs": 0}, None),
        ({"logprobs": 3}, 3),
        ({"logprobs": 0}, 0),
        ({}, None),
    ):
        assert from_openai(given)[0].logprobs == expected
    for given in ({"top_logprobs": 2}, {"logprobs": False, "top_logprobs": 2}):
        with pytest.raises(BadRequest, match="top_logprobs=2: it needs logprobs=True"):
            from_openai(given)
    for given in ({"logprobs": True, "top_logprobs": 21}, {"logprobs": 21}, {"logprobs": "yes"}):
        with pytest.raises(BadRequest, match="logprobs must be a whole number in"):
            from_openai(given)


def test_biases_are_by_id_alone():
    assert from_openai({"logit_bias": {5: 1}})[0].logit_bias == ((5, 1.0),)
    params, changes = from_openai({"logit_bias": {"5": -100}, "max_tokens": 1})
    assert params.logit_bias == ((5, -100.0),)
    assert "all but banned" in notes(changes)["logit_bias"]
    with pytest.raises(BadRequest, match="logit_bias names 5 twice"):
        from_openai({"logit_bias": {"5": 1, 5: 2}})
    for bias in ({"word": 1}, {"-1": 1}, {"5": 101}, [5], {True: 1}):
        with pytest.raises(BadRequest, match="logit_bias"):
            from_openai({"logit_bias": bias})
    assert DecodingParams(logit_bias={"word": 1}).to_openai()[1][0].our_name == "logit_bias"
    assert DecodingParams(logit_bias={5: False}).to_openai()[1][0].our_name == "logit_bias"
    assert DecodingParams(logit_bias={5: 2}).to_openai()[0]["logit_bias"] == {"5": 2.0}


def test_a_top_p_of_0_keeps_one_token():
    params, changes = from_openai({"top_p": 0, "max_tokens": 1})
    assert params.top_p == 1e-9
    assert "keeps one token" in notes(changes)["top_p"]


def test_seeds_of_64_bits_with_a_sign_are_the_same_bits():
    assert from_openai({"seed": -2})[0].seed == 2**64 - 2
    assert from_openai({"seed": -1})[0].seed == 2**64 - 1
    with pytest.raises(BadRequest, match="seed must be a whole number"):
        from_openai({"seed": -(2**63) - 1})


def test_four_stops_are_the_most_that_openai_takes():
    assert DecodingParams(stop=list("abcd")).to_openai()[0]["stop"] == list("abcd")
    assert [change.our_name for change in DecodingParams(stop=list("abcde")).to_openai()[1]] == ["stop"]


def test_what_they_have_no_word_for_is_named():
    theirs, lost = DecodingParams(top_k=5, min_p=0.1, logprobs=30).to_openai()
    assert "top_k" not in theirs
    assert {change.our_name for change in lost} == {"top_k", "min_p", "logprobs"}
    assert "OpenAI has no such parameter" in [change.note for change in lost]
    assert {change.our_name for change in DecodingParams(max_tokens=None).to_anthropic()[1]} == {"max_tokens"}
