"""The profiles that come with unspool: every value of the table, each with its reason."""

from __future__ import annotations

import pytest

from unspool.errors import BadRequest
from unspool.params import DecodingParams
from unspool.profiles import load_profile
from unspool.profiles.check import check_profile
from unspool.profiles.lookup import SHIPPED

BEAM = {"width": 4, "length_norm": "gnmt", "length_alpha": 0.6}

# Profile to its parameters, and to what it needs beside them.
TABLE = {
    "default": ({"temperature": 0.8, "top_p": 0.9}, {}),
    "translate": ({}, {"beam": BEAM}),
    "code": ({"temperature": 0.7, "top_p": 0.9}, {}),
    "complete": (
        {"temperature": 0.2, "top_p": 0.9, "min_p": 0.05, "stop": ["\n\n", "\r\n\r\n"]},
        {},
    ),
    "creative": ({"temperature": 1.0, "top_p": 0.95, "presence_penalty": 0.6}, {}),
    "factual": ({"temperature": 0}, {}),
    "support": ({"temperature": 0.3, "top_p": 0.9, "presence_penalty": 0.4}, {}),
    "json": ({"temperature": 0.3}, {"schema": {}}),
    "chat": (
        {"temperature": 0.8, "top_p": 0.9, "repetition_penalty": 1.1, "penalty_exclude_template": True},
        {},
    ),
    "summarise": ({"temperature": 0.4, "top_p": 0.9}, {"beam": BEAM}),
    "tools": ({"temperature": 0}, {"tools": {}}),
    "reason": ({"temperature": 0.7, "top_p": 0.95}, {"best_of": {"n": 8, "verifier": "majority"}}),
}


def test_the_table_has_every_shipped_profile() -> None:
    assert sorted(TABLE) == sorted(path.stem for path in SHIPPED.glob("*.toml"))


@pytest.mark.parametrize("name", TABLE)
def test_a_shipped_profile_sets_what_the_table_says(name: str) -> None:
    profile = load_profile(name)
    values, needs = TABLE[name]
    assert profile.values == values
    found = {need.kind: {k: held.value for k, held in need.settings.items()} for need in profile.needs}
    assert found == needs
    assert profile.is_shipped


@pytest.mark.parametrize("name", TABLE)
def test_a_shipped_profile_passes_its_check(name: str) -> None:
    assert check_profile(load_profile(name).path) == []


@pytest.mark.parametrize(
    "name", [name for name in TABLE if name not in ("translate", "json", "tools", "reason")]
)
def test_a_profile_of_parameters_alone_decodes(name: str) -> None:
    assert DecodingParams.from_profile(name) == DecodingParams(**TABLE[name][0])


@pytest.mark.parametrize(
    ("name", "missing", "rest"),
    [
        ("json", "a JSON schema to decode by", "(temperature=0.3)"),
        ("tools", "a grammar made of tool schemas", "(temperature=0)"),
    ],
)
def test_a_profile_that_needs_what_is_not_there_is_refused_with_the_rest_of_it(name, missing, rest) -> None:
    with pytest.raises(BadRequest) as caught:
        DecodingParams.from_profile(name)
    message = str(caught.value)
    assert caught.value.code == "unmet_need"
    assert f"profile {name!r} needs {missing}, which unspool does not have yet" in message
    assert rest in message
    assert f"unspool profiles show {name}" in message


def test_a_profile_that_a_command_sees_to_names_it() -> None:
    with pytest.raises(BadRequest, match=r"needs best of n \(n 8, .* majority\), which `unspool best` does"):
        DecodingParams.from_profile("reason")
    them = r"`unspool run`, `explain`, `best`, `chat` and `eval` do"
    with pytest.raises(BadRequest, match=rf"needs beam search \(width 4, .*\), which {them}"):
        DecodingParams.from_profile("translate")


def test_where_the_table_has_an_alternative_it_is_taken() -> None:
    (need,) = load_profile("summarise").needs
    assert need.otherwise == "sample"
    assert DecodingParams.from_profile("summarise", seed=3) == DecodingParams(
        temperature=0.4, top_p=0.9, seed=3
    )


def test_code_says_what_to_change_for_many_tries() -> None:
    reason = load_profile("code").settings["temperature"].reason
    assert "0.8 to 1.0 with top_p 0.95" in reason
