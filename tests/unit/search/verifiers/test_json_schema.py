"""A JSON schema that the answer must satisfy."""

from __future__ import annotations

import builtins

import pytest
from answers import answer

from unspool.errors import BadRequest
from unspool.search.verifiers.json_schema import JsonSchema

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
}


@pytest.fixture
def judge():
    pytest.importorskip("jsonschema")

    def judge(text, schema=SCHEMA, **settings):
        return JsonSchema(schema, **settings)("", answer(text))

    return judge


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Ada", "age": 36}',
        'Here:\n```json\n{"age": 36, "name": "Ada"}\n```',
        'It is {"name": "Ada", "age": 36}, I think.',
    ],
)
def test_a_valid_value_is_found_where_it_stands_and_spelled_alike(judge, text):
    verdict = judge(text)
    assert (verdict.accepted, verdict.answer) == (True, '{"age": 36, "name": "Ada"}')


def test_strict_takes_the_whole_text_only(judge):
    assert judge(' {"name": "Ada", "age": 36}\n', strict=True).accepted is True
    assert judge('It is {"name": "Ada", "age": 36}', strict=True).accepted is False


def test_the_less_is_wrong_the_better_the_score(judge):
    none, two, one = judge("no"), judge('{"age": -1}'), judge('{"name": "Ada", "age": -1}')
    assert none.score < two.score < one.score < 1
    assert "$.age" in one.detail
    assert "and 1 more" in two.detail


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": 1, "a": 2}', "[" * 100_000, ""])
def test_what_is_no_json_is_no_value(judge, text):
    assert judge(text, True, strict=True).detail == "no JSON"


def test_null_is_a_value(judge):
    assert judge("null", {"type": "null"}).answer == "null"


def test_a_schema_that_is_none_or_leads_elsewhere_is_refused(judge):
    with pytest.raises(BadRequest, match="of the schema"):
        judge("1", {"type": "strnig"})
    with pytest.raises(BadRequest, match="cannot be applied"):
        judge("1", {"$ref": "http://127.0.0.1:9/none.json"})


def test_without_jsonschema_one_line_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "jsonschema":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(BadRequest, match="pip install jsonschema"):
        JsonSchema(SCHEMA)
