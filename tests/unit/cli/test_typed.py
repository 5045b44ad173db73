"""From what was typed to the value of a parameter."""

from __future__ import annotations

import pytest

from unspool.cli.typed import read_assignments, read_option, read_value
from unspool.errors import BadRequest


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("temperature", "1e-1", 0.1),
        ("temperature", ".5", 0.5),
        ("temperature", "hot", "hot"),
        ("seed", "None", None),
        ("ignore_eos", "False", False),
        ("ignore_eos", "on", True),
        ("ignore_eos", "perhaps", "perhaps"),
        ("penalty_scope", "output", "output"),
        ("stop", "5", "5"),
        ("stop", "true", "true"),
        ("stop", "[]", []),
        ("stop", '"a, b"', "a, b"),
        ("stop", "[" * 100_000, "[" * 100_000),
        ("banned_token_ids", "1, 2,3", (1, 2, 3)),
        ("banned_token_ids", "[1, 2]", (1, 2)),
        ("banned_token_ids", "one", ("one",)),
        ("banned_token_ids", "none", ()),
        ("allowed_token_ids", "none", None),
        ("logit_bias", "42=-5", ((42, -5),)),
        ("logit_bias", " yes=1.5", ((" yes", 1.5),)),
        ("logit_bias", "a=b=false", (("a=b", False),)),
        ("logit_bias", '{"42": -5, "no": false}', ((42, -5), ("no", False))),
        ("logit_bias", '[["42", -5]]', (["42", -5],)),  # a text of digits
        ("logit_bias", "none", ()),
        ("order", "vllm", "vllm"),
        ("order", "top_k", ("top_k",)),
        ("order", "penalties, temperature,top_k", ("penalties", "temperature", "top_k")),
        ("order", '["top_k"]', ["top_k"]),
        ("order", "nonsense", "nonsense"),
        ("no_such_parameter", "1", "1"),
    ],
)
def test_a_value_is_read_as_its_parameter_has_it(name: str, text: str, value: object) -> None:
    assert read_value(name, text) == value


def test_options_that_repeat_are_taken_as_they_stand() -> None:
    assert read_option("stop", ["[]", '"x"', "none"]) == ("[]", '"x"', "none")
    assert read_option("stop_token_ids", ["1,2", "3"]) == (1, 2, 3)
    assert read_option("logit_bias", ["1=2", "x=false"]) == ((1, 2), ("x", False))
    assert read_option("ignore_eos", False) is False


@pytest.mark.parametrize("text", ["5", "=5", ""])
def test_a_bias_without_a_token_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="ID=VALUE or TEXT=VALUE"):
        read_value("logit_bias", text)


def test_assignments_name_their_parameter_once() -> None:
    assert read_assignments(["dry-base=2", "stop=[]", "bad_words=a=b"]) == {
        "dry_base": 2,
        "stop": [],
        "bad_words": "a=b",
    }
    with pytest.raises(BadRequest, match="twice"):
        read_assignments(["top_k=1", "top-k=2"])
    for text in ("top_k", "=3"):
        with pytest.raises(BadRequest, match="NAME=VALUE"):
            read_assignments([text])
