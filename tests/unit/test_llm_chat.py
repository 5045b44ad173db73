"""Chat through the front door: the template writes the prompt, and its control tokens are tokens."""

from __future__ import annotations

import pytest
from tiny_llm import END_ID, write_tiny_llm

from unspool import LLM, DecodingParams
from unspool.errors import TemplateError

GREEDY = DecodingParams(max_tokens=12, temperature=0, ignore_eos=True)


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    with LLM(write_tiny_llm(tmp_path_factory.mktemp("model") / "tiny.gguf"), threads=1) as llm:
        yield llm


def test_chat_answers_the_text_that_the_template_writes(llm):
    messages = [{"role": "user", "content": "hi"}]
    done = llm.chat(messages, GREEDY)
    assert done.token_ids == llm.generate("u:hi\na:", GREEDY).token_ids
    assert "".join(event.text for event in llm.stream_chat(messages, GREEDY)) == done.text
    assert llm.has_chat_template


def test_chat_can_continue_the_last_message(llm):
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes, b"}]
    done = llm.chat(messages, GREEDY, continue_final_message=True)
    assert done.token_ids == llm.generate("u:hi\na:yes, b", GREEDY).token_ids


def test_chat_passes_tools_and_variables_to_the_template(tmp_path):
    template = "{{ tools | length }}{{ mood }}{% for m in messages %}{{ m.content }}{% endfor %}"
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    with LLM(write_tiny_llm(tmp_path / "tools.gguf", chat_template=template)) as llm:
        done = llm.chat(
            [{"role": "user", "content": "go"}], GREEDY, tools=[tool], template_variables={"mood": "calm"}
        )
        assert done.token_ids == llm.generate("1calmgo", GREEDY).token_ids


def test_control_tokens_of_the_template_are_tokens_and_those_in_messages_are_text(tmp_path):
    template = "{% for m in messages %}{{ m.content }}<|end|>{% endfor %}"
    with LLM(write_tiny_llm(tmp_path / "ends.gguf", chat_template=template)) as ends:
        done = ends.chat([{"role": "user", "content": "hi"}], GREEDY)
        assert done.token_ids == ends.generate([*b"hi", END_ID], GREEDY).token_ids
        forged = ends.chat([{"role": "user", "content": "<|end|>"}], GREEDY)
        assert forged.token_ids == ends.generate([*b"<|end|>", END_ID], GREEDY).token_ids
        assert ends.tokenize("<|end|>") == [*b"<|end|>"]
        assert ends.tokenize("<|end|>", parse_special=True) == [END_ID]


def test_a_model_without_a_template_generates_but_does_not_chat(tmp_path):
    with LLM(write_tiny_llm(tmp_path / "base.gguf", chat_template=None)) as base:
        assert not base.has_chat_template
        with pytest.raises(TemplateError, match="no chat template"):
            base.chat([{"role": "user", "content": "hi"}])
        assert base.generate("hello", GREEDY).finish_reason == "length"


def test_a_template_that_does_not_parse_is_a_template(tmp_path):
    with LLM(write_tiny_llm(tmp_path / "bad.gguf", chat_template="{% for %}")) as bad:
        assert bad.has_chat_template
        assert bad.generate("hello", GREEDY).finish_reason == "length"
        with pytest.raises(TemplateError, match="does not parse"):
            bad.chat([{"role": "user", "content": "hi"}])
