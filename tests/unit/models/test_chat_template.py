"""Where chat templates come from, what they are given, and how they fail."""

from __future__ import annotations

import enum
import json
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from unspool.errors import BadRequest, ModelFileError, TemplateError
from unspool.models.chat_template import ChatTemplate

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
HI = [{"role": "user", "content": "Hi"}]


class SpecialTokens:
    special_tokens = MappingProxyType({"bos_token": "<s>", "eos_token": "</s>"})


def template(text: str, **named: str) -> ChatTemplate:
    return ChatTemplate("tiny", {"default": text, **named}, SpecialTokens())  # type: ignore[arg-type]


class Source:
    def __init__(self, path: Path, metadata: dict[str, Any] | None = None) -> None:
        self.path = path
        self.metadata = metadata or {}
        self.format = "safetensors" if metadata is None else "gguf"


def from_source(source: Source) -> ChatTemplate:
    return ChatTemplate.from_source(source, SpecialTokens())  # type: ignore[arg-type]


def test_gguf_metadata_hold_the_default_template_and_named_ones() -> None:
    metadata = {"tokenizer.chat_template": "plain", "tokenizer.chat_template.tool_use": "tools", "other": 1}
    chat = from_source(Source(Path("m.gguf"), metadata))
    assert chat.sources == {"default": "plain", "tool_use": "tools"}
    assert chat.render(HI) == "plain"
    assert chat.render(HI, tools=[{"type": "function"}]) == "tools"
    assert chat.render(HI, tools=[]) == "plain"
    assert chat.render(HI, variant="tool_use") == "tools"


def test_an_unknown_variant_lists_the_known_ones() -> None:
    with pytest.raises(TemplateError, match="no chat template named 'rag'; known: default"):
        template("x").render(HI, variant="rag")


def test_a_model_without_a_template_says_what_to_do() -> None:
    with pytest.raises(TemplateError, match=r"base model; use raw text .*--raw.*pass a template") as error:
        from_source(Source(Path("base.gguf"), {"tokenizer.ggml.model": "llama"}))
    assert error.value.code == "no_chat_template"


def test_only_the_default_template_must_be_sound_to_open_a_model() -> None:
    chat = template("fine", tool_use="{% if %}")
    assert chat.render(HI) == "fine"
    with pytest.raises(TemplateError, match="does not parse"):
        chat.render(HI, variant="tool_use")
    assert template("fine").render(HI) == "fine"
    with pytest.raises(TemplateError, match="does not parse") as error:
        template("{% if %}")
    assert error.value.code == "chat_template"


def test_a_template_that_is_no_text_is_a_broken_file() -> None:
    with pytest.raises(ModelFileError, match=r"m.gguf: tokenizer.chat_template: is a int"):
        from_source(Source(Path("m.gguf"), {"tokenizer.chat_template": 3}))


@pytest.mark.parametrize(
    ("config", "sources"),
    [
        ({"chat_template": "one"}, {"default": "one"}),
        (
            {"chat_template": [{"name": "default", "template": "one"}, {"name": "rag", "template": "two"}]},
            {"default": "one", "rag": "two"},
        ),
    ],
)
def test_a_folder_holds_templates_in_its_tokenizer_config(
    tmp_path: Path, config: dict[str, Any], sources: dict[str, str]
) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert from_source(Source(tmp_path)).sources == sources


def test_a_template_in_a_file_of_its_own_comes_first(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": "old"}')
    (tmp_path / "chat_template.jinja").write_text("new é", encoding="utf-8")
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "rag.jinja").write_text("more")
    assert from_source(Source(tmp_path)).sources == {"default": "new é", "rag": "more"}


@pytest.mark.parametrize("value", [3, {"a": 1}, [{"name": "default"}], ["x"], [{"name": 1, "template": "x"}]])
def test_a_broken_tokenizer_config_is_named(tmp_path: Path, value: object) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": value}))
    with pytest.raises(ModelFileError, match=r"tokenizer_config\.json: chat_template"):
        from_source(Source(tmp_path))


def test_a_template_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_bytes(b"ab\xff")
    with pytest.raises(ModelFileError, match=r"chat_template\.jinja: file: is not UTF-8 at byte 2"):
        from_source(Source(tmp_path))


def test_the_assistants_turn_is_opened_unless_told_otherwise() -> None:
    chat = template(CHATML)
    assert chat.render(HI).endswith("<|im_start|>assistant\n")
    assert chat.render(HI, add_generation_prompt=False).endswith("Hi<|im_end|>\n")


def test_the_last_message_can_be_left_open() -> None:
    messages = [*HI, {"role": "assistant", "content": "Sure, "}]
    text = template(CHATML).render(messages, continue_final_message=True)
    assert text.endswith("<|im_start|>assistant\nSure, ")
    trimming = template("{% for m in messages %}[{{ m.content | trim }}]{% endfor %}")
    assert trimming.render(messages, continue_final_message=True) == "[Hi][Sure,"


def test_to_open_a_new_message_and_continue_the_last_is_a_contradiction() -> None:
    with pytest.raises(BadRequest, match="give one of them"):
        template(CHATML).render(HI, add_generation_prompt=True, continue_final_message=True)


def test_a_last_message_that_the_template_rewrites_cannot_be_continued() -> None:
    messages = [*HI, {"role": "assistant", "content": "Sure"}]
    for source in ("{{ messages[0].content }}", "{{ messages[-1].content | upper }}"):
        with pytest.raises(TemplateError, match="cannot be continued"):
            template(source).render(messages, continue_final_message=True)


@pytest.mark.parametrize(
    ("message", "field", "problem"),
    [
        ({"role": "assistant", "tool_calls": [{"id": "1"}]}, True, "has no 'content'"),
        ({"role": "assistant", "content": "x"}, "reasoning", "has no 'reasoning'"),
        ({"role": "assistant", "content": "x", "name": "y"}, "name", "does not write 'name'"),
        ({"role": "assistant", "content": []}, True, "not text that can be continued"),
        ({"role": "assistant", "content": "x", "content_ids": 3}, "content_ids", "does not write"),
    ],
)
def test_what_cannot_be_continued_is_said(message: dict[str, Any], field: bool | str, problem: str) -> None:
    source = "{% for m in messages %}{% for part in m.content %}{{ part }}{% endfor %}{% endfor %}"
    with pytest.raises(BadRequest, match=problem):
        template(source).render([*HI, message], continue_final_message=field)


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ("Hi", "must be a list of dicts, got str"),
        ({"role": "user", "content": "x"}, "must be a list of dicts, got dict"),
        (None, "must be a list of dicts, got NoneType"),
        ([], "at least one message"),
        (["Hi"], r"messages\[0\] must be a dict with role and content, got str"),
        ([{"content": "x"}], r"messages\[0\]\.role must be text such as 'user', got None"),
        ([{"role": "", "content": "x"}], "role must be text"),
        ([{"role": 3, "content": "x"}], "role must be text such as 'user', got 3"),
        ([{"role": "user"}], r"messages\[0\]\.content must be text or a list of text parts, got nothing"),
        ([{"role": "user", "content": None}], "got nothing"),
        ([{"role": "assistant", "content": None}], "got nothing"),
        ([{"role": "user", "content": 3}], "content must be text or a list of text parts, got 3"),
        ([{"role": "user", "content": {"text": "x"}}], "content must be text"),
        ([{"role": "user", "content": ["x"]}], r"content\[0\] must be"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}], "image_url"),
        ([{"role": "user", "content": [{"type": "text"}]}], r"content\[0\] must be"),
        ([*HI, {"role": "user", "content": "x", "extra": object()}], r"messages\[1\]\.extra is a object"),
        ([{"role": "user", "content": b"x"}], r"messages\[0\]\.content is a bytes"),
        ([{"role": "user", "content": "x", 3: 4}], "keys must be strings"),
    ],
)
def test_malformed_messages_are_refused_by_place(messages: Any, problem: str) -> None:
    with pytest.raises(BadRequest, match=problem) as error:
        template(CHATML).render(messages)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["tools", "documents"])
@pytest.mark.parametrize("value", ["x", {"a": 1}, 3, ["x"], [{"a": {1, 2}}]])
def test_malformed_tools_and_documents_are_refused(name: str, value: Any) -> None:
    with pytest.raises(BadRequest, match=name):
        template(CHATML).render(HI, **{name: value})


def test_json_without_bottom_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(BadRequest, match="nests deeper than 64 levels"):
        template(CHATML).render(HI, anything=endless)


class Colour(str, enum.Enum):
    RED = "red"


def test_a_template_sees_plain_values_and_never_the_callers_objects() -> None:
    messages = (MappingProxyType({"role": "user", "content": "x", "colour": Colour.RED, "empty": None}),)
    source = "{{ messages[0].colour ~ messages[0].colour.value }}|{{ 'empty' in messages[0] }}|{{ flag }}"
    assert template(source).render(messages, flag=True) == "red|False|True"  # type: ignore[arg-type]


def test_the_callers_messages_stay_as_they_are() -> None:
    messages = [*HI, {"role": "assistant", "content": [{"type": "text", "text": "x"}], "reasoning": "y"}]
    before = json.dumps(messages)
    template(CHATML).render(messages, continue_final_message=True)
    assert json.dumps(messages) == before


def test_content_in_parts_becomes_lines_for_a_template_that_knows_only_text() -> None:
    parts = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"text": "b"}]}]
    assert template("{{ messages[0].content }}").render(parts) == "a\nb"
    reading = "{% for part in messages[0]['content'] %}({{ part.text }}){% endfor %}"
    assert template(reading).render(parts) == "(a)(b)"
    assert (
        template("{% set content = messages[0].content %}{% for p in content %}.{% endfor %}").render(parts)
        == ".."
    )


def test_reasoning_goes_under_the_names_that_templates_read() -> None:
    messages = [{"role": "assistant", "content": "x", "reasoning": "why"}]
    source = "{{ messages[0].reasoning_content }}|{{ messages[0].thinking }}"
    assert template(source).render(messages) == "why|why"


def test_special_tokens_are_variables_and_can_be_replaced() -> None:
    assert template("{{ bos_token }}{{ pad_token }}{{ eos_token }}").render(HI) == "<s></s>"
    assert template("{{ bos_token }}").render(HI, bos_token="[B]") == "[B]"


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("{% if %}", "does not parse: line 1"),
        ("a\n{{ 1 + }}", "does not parse: line 2"),
        ("{% for m in messages %}", "does not parse"),
        ("{% extends 'other' %}", "fails"),
        ("{% include 'other' %}", "fails"),
        ("{{ raise_exception('only\ntext') }}", "refuses these messages: only text"),
        ("{{ messages[9].content }}", "needs what these messages lack: "),
        ("{{ nothing.at.all }}", "needs what these messages lack: 'nothing' is undefined"),
        ("{{ nothing() }}", "'nothing' is undefined"),
        ("{{ messages[0].content + 3 }}", "fails: TypeError"),
        ("{{ 1 / 0 }}", "fails: ZeroDivisionError"),
        ("{{ messages | nosuchfilter }}", "does not parse: line 1: No filter named"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "fails: RecursionError"),
        ("{{ [1, 2] | tojson(indent='x' * 3, separators=3) }}", "fails: TypeError"),
    ],
)
def test_a_template_that_fails_is_a_typed_error_of_one_line(source: str, problem: str) -> None:
    with pytest.raises(TemplateError) as error:
        template(source).render(HI)
    assert problem in str(error.value)
    assert str(error.value).startswith("tiny: chat template ")
    assert "\n" not in str(error.value)
