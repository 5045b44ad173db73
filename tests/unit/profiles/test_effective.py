"""A profile under explicit parameters: those win, and what they rule out gives way."""

from __future__ import annotations

import pytest

from unspool.errors import BadRequest, ParameterConflict
from unspool.params import DecodingParams
from unspool.profiles import effective, load_profile

MIXED = """
temperature = 0.7
top_k = 50
top_p = 0.9
min_p = 0.1
presence_penalty = 0.5
"""


@pytest.mark.parametrize(
    ("explicit", "changed", "gave_way"),
    [
        ({}, {}, ()),
        ({"top_p": 0.5}, {"top_p": 0.5}, ()),
        ({"seed": 4}, {"seed": 4}, ()),
        (
            {"mirostat": 2},
            {"mirostat": 2, "top_k": 0, "top_p": 1, "min_p": 0},
            ("top_k", "top_p", "min_p"),
        ),
        (
            {"temperature": 0},
            {"temperature": 0, "top_k": 0, "top_p": 1, "min_p": 0},
            ("top_k", "top_p", "min_p"),
        ),
        ({"smoothing_factor": 0.2}, {"smoothing_factor": 0.2, "temperature": 1}, ("temperature",)),
        (
            {"order": ["temperature", "top_p"]},
            {"order": ("temperature", "top_p"), "top_k": 0, "min_p": 0, "presence_penalty": 0},
            ("presence_penalty", "top_k", "min_p"),
        ),
    ],
)
def test_what_explicit_parameters_rule_out_gives_way(write, explicit, changed, gave_way) -> None:
    profile = load_profile(write(MIXED))
    merged = effective(profile, explicit)
    own = DecodingParams(temperature=0.7, top_k=50, top_p=0.9, min_p=0.1, presence_penalty=0.5)
    assert merged.params == DecodingParams(**(own.to_dict() | changed))
    assert merged.gave_way == gave_way


def test_half_of_a_pair_turned_off_takes_the_other_half_along(write) -> None:
    profile = load_profile(write("dynatemp_min = 0.5\ndynatemp_max = 1.5\ntemperature = 1\n"))
    assert effective(profile, {"temperature": 0.4}).params == DecodingParams(temperature=0.4)
    assert effective(profile, {"dynatemp_min": None}).params == DecodingParams()
    wider = effective(profile, {"dynatemp_max": 2}).params
    assert (wider.dynatemp_min, wider.dynatemp_max) == (0.5, 2)


def test_explicit_parameters_that_contradict_each_other_are_the_callers_error(write) -> None:
    profile = load_profile(write(MIXED))
    with pytest.raises(ParameterConflict, match=r"mirostat=2 and top_a=0\.5") as caught:
        profile.params(mirostat=2, top_a=0.5)
    assert caught.value.names == ("mirostat", "top_a")
    with pytest.raises(BadRequest, match=r"^top_p must be"):
        profile.params(top_p=7)
    with pytest.raises(BadRequest, match="did you mean 'top_p'"):
        profile.params(topp=1)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("top_p = 1.4\n", "top_p must be a number in (0, 1], got 1.4; 1 turns it off"),
        ("tempreture = 1\n", "no parameter 'tempreture'; did you mean 'temperature'?"),
        ("mirostat = 2\ntop_p = 0.5\n", "mirostat replaces every truncation"),
        ("[seed]\nvalue = 'x'\n", "seed must be"),
        ("top_p = 'none'\n", "top_p must be a number in (0, 1], got 'none'"),
    ],
)
def test_a_wrong_value_in_a_file_names_the_file(write, content: str, said: str) -> None:
    path = write(content)
    with pytest.raises(BadRequest) as caught:
        DecodingParams.from_profile(path, temperature=0.5)
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)
    assert caught.value.code == "bad_profile"


def test_toml_values_become_parameters(write) -> None:
    path = write(
        "max_tokens = 'none'\nstop = 'none'\nlogit_bias = [[5, -2.0], ['no', false]]\n"
        "order = ['penalties', 'bias', 'temperature']\nignore_eos = true\n"
    )
    assert DecodingParams.from_profile(path) == DecodingParams(
        max_tokens=None,
        stop="none",
        logit_bias={5: -2.0, "no": False},
        order=["penalties", "bias", "temperature"],
        ignore_eos=True,
    )
