"""Which tokens of a conversation the template wrote, for the penalties that leave them out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny_llm import END_ID, write_tiny_llm

from unspool import LLM, DecodingParams
from unspool.asking import How, chat_request_of
from unspool.models.chat_spans import positions_outside
from unspool.models.chat_template import ChatTemplate
from unspool.models.tokenizer import Tokenizer, load_tokenizer
from unspool.models.weights.gguf import GgufSource

FOLDER = Path(__file__).parents[2] / "data" / "chat_templates"
FAMILIES = sorted(path.stem for path in FOLDER.glob("*.jinja"))
TALK = [
    {"role": "user", "content": "user"},  # a word that templates write too
    {"role": "assistant", "content": "  Yes,\n\nassistant!  "},
    {"role": "user", "content": "And <b>tags</b> über 世界?"},
]
CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|end|>{% endfor %}>>"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """A byte is a token, so that positions are those of bytes."""
    with GgufSource(write_tiny_llm(tmp_path_factory.mktemp("model") / "tiny.gguf")) as source:
        return load_tokenizer(source)


def words_left(
    tokenizer: Tokenizer, template: str, messages: list[dict[str, Any]], **options: Any
) -> tuple[str, str]:
    """The text of the positions that are not the template's, and of those that are."""
    chat = ChatTemplate("tiny", {"default": template}, tokenizer)
    ids, outside = chat.encode_with_positions(messages, **options)
    assert ids == chat.encode(messages, **options)
    inside = [i for position, i in enumerate(ids) if position not in outside]
    written = [i for position, i in enumerate(ids) if position in outside]
    return tokenizer.decode(inside), tokenizer.decode(written, skip_special=False)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_words_of_the_messages_are_told_from_the_template_of_every_family(
    tokenizer: Tokenizer, family: str
) -> None:
    template = "{% set bos_token = '<s>' %}" + (FOLDER / f"{family}.jinja").read_text()
    words, written = words_left(tokenizer, template, TALK)
    assert (
        words.replace("  ", "") == "userYes,\n\nassistant!And <b>tags</b> über 世界?"
    )  # some trim, some do not
    assert "世" not in written


def test_blanks_around_a_message_and_control_tokens_are_the_templates(tokenizer: Tokenizer) -> None:
    words, written = words_left(tokenizer, CHATML, TALK[1:2])
    assert words == "Yes,\n\nassistant!"
    assert written == "<|im_start|>assistant\n<|end|>>>"


def test_a_control_token_that_a_user_typed_is_a_word(tokenizer: Tokenizer) -> None:
    words, written = words_left(tokenizer, CHATML, [{"role": "user", "content": "end<|end|>here"}])
    assert words == "end<|end|>here"
    assert written == "<|im_start|>user\n<|end|>>>"


def test_parts_and_reasoning_are_words_and_tools_are_not(tokenizer: Tokenizer) -> None:
    template = (
        "{{ tools }}{% for m in messages %}({{ m.reasoning_content }})"
        "{% for part in m.content %}[{{ part.text }}]{% endfor %}{% endfor %}"
    )
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": " two "}]
    messages = [{"role": "assistant", "content": parts, "reasoning_content": "hm"}]
    tools = [{"type": "function", "function": {"name": "hm"}}]
    words, written = words_left(tokenizer, template, messages, tools=tools)
    assert words == "hmone two "
    assert written.endswith("()[][]")


def test_a_template_that_takes_a_content_apart_leaves_its_answer_a_word(tokenizer: Tokenizer) -> None:
    template = "{% for m in messages %}a:{{ m.content.split('</think>')[-1].lstrip() }}{% endfor %}"
    messages = [{"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes."}]
    assert words_left(tokenizer, template, messages) == ("Yes.", "a:")


def test_a_template_that_looks_at_how_a_content_begins_is_not_misled(tokenizer: Tokenizer) -> None:
    template = (
        "{% for m in messages %}{% if m.content.startswith('#') %}note {% endif %}{{ m.content }}{% endfor %}"
    )
    assert words_left(tokenizer, template, [{"role": "user", "content": "#1"}]) == ("#1", "note ")
    refusing = (
        "{% if messages[0].content != 'go' %}{{ raise_exception('no') }}{% endif %}>{{ messages[0].content }}"
    )
    assert words_left(tokenizer, refusing, [{"role": "user", "content": "go"}]) == ("go", ">")


def test_a_message_that_is_continued_is_words_to_its_end(tokenizer: Tokenizer) -> None:
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "well"}]
    words, written = words_left(tokenizer, CHATML, messages, continue_final_message=True)
    assert words == "hiwell"
    assert written == "<|im_start|>user\n<|end|><|im_start|>assistant\n"


class Pieces:
    """Tokens by their text, as positions_outside asks for them."""

    def __init__(self, *pieces: str) -> None:
        self.pieces = pieces

    def decode_bytes(self, ids: list[int], *, skip_special: bool, continues: bool) -> bytes:
        assert continues
        assert not skip_special
        return b"".join(self.pieces[i].encode() for i in ids)


@pytest.mark.parametrize(
    ("pieces", "outside"),
    [
        (("[U]", "hello", "[E]"), {0, 2}),
        (("<s>", "[U]", "hello", "[E]"), {0, 1, 3}),  # a begin token that the template did not write
        (("[U]", " hello", "[E]"), {0, 2}),  # the space of SentencePiece models
        (("[U]", " ", "hello", "[E]"), {0, 1, 3}),
        (("[U", "]he", "llo", "[E]"), {0, 1, 3}),  # a token that is partly the template's
        (("[U]", "hel", "lo[", "E]"), {0, 2, 3}),
        (("[U]", "HE", "llo", "[E]"), {0, 1, 3}),  # what a normalizer changed is found again behind it
    ],
)
def test_tokens_are_placed_in_the_text_they_came_from(pieces: tuple[str, ...], outside: set[int]) -> None:
    found = positions_outside(range(len(pieces)), "[U]hello[E]", [(3, 8)], Pieces(*pieces))  # type: ignore[arg-type]
    assert found == outside


def test_the_penalties_of_a_chat_leave_the_template_out_when_asked(tmp_path: Path) -> None:
    template = "{% for m in messages %}aaaa{{ m.content }}<|end|>{% endfor %}"
    with LLM(write_tiny_llm(tmp_path / "chat.gguf", chat_template=template), threads=1) as llm:
        messages = [{"role": "user", "content": "b"}]
        params = DecodingParams(penalty_exclude_template=True, presence_penalty=1, penalty_scope="all")
        request = chat_request_of(llm.chat_template, messages, params, How())
        assert request.prompt_ids == (*b"aaaab", END_ID)
        assert request.template_positions == {0, 1, 2, 3, 5}
        plain = chat_request_of(llm.chat_template, messages, DecodingParams(), How())
        assert not plain.template_positions
        assert llm.chat(messages, params.replace(max_tokens=3)).usage.completion_tokens <= 3


@pytest.mark.model
@pytest.mark.parametrize("name", ["smollm2-135m", "qwen2.5-coder-1.5b"])
def test_real_templates_and_tokenizers(model_path: Any, name: str) -> None:
    with GgufSource(model_path(name)) as source:
        tokenizer = load_tokenizer(source)
        template = ChatTemplate.from_source(source, tokenizer).sources["default"]
    words, written = words_left(tokenizer, template, TALK)
    assert words.replace(" ", "").replace("\n", "") == "userYes,assistant!And<b>tags</b>über世界?"
    assert "<|im_start|>" in written
    assert "世" not in written
