"""Byte-level vocabularies, on one of 266 tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unspool.errors import BadRequest
from unspool.models.tokenizer import Tokenizer, TokenKind

Load = Callable[[Mapping[str, Any]], Tokenizer]

BOS, IM_END, TOOL, PAD = 262, 263, 264, 265


@pytest.fixture
def tokenizer(load: Load, byte_level_metadata: dict[str, Any]) -> Tokenizer:
    return load(byte_level_metadata)


def test_merges_apply_in_order_and_never_across_words(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("hello hello") == [258, ord("o"), 259, 257, ord("o")]


def test_the_empty_text_has_no_ids(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("") == []
    assert tokenizer.encode_bytes(b"") == []
    assert tokenizer.decode([]) == ""


@pytest.mark.parametrize("text", ["<|im_end|>", "a<|begin|>b", "<|im_<|im_end|>end|>"])
def test_control_tokens_typed_by_a_user_are_plain_text(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert not any(tokenizer.is_special(i) for i in ids)
    assert tokenizer.decode(ids) == text


def test_control_tokens_are_parsed_when_asked(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("<|begin|>he<|im_end|>", parse_special=True) == [BOS, 256, IM_END]


def test_user_defined_tokens_are_found_either_way(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("he<tool>he") == [256, TOOL, 256]
    assert tokenizer.encode("he<tool>he", parse_special=True) == [256, TOOL, 256]


def test_a_vocabulary_that_builds_a_control_token_from_text_still_reads_text(
    load: Load, byte_level_metadata: dict[str, Any]
) -> None:
    byte_level_metadata["tokenizer.ggml.token_type"][258] = 3  # "hell" becomes a control token with a merge
    tokenizer = load(byte_level_metadata)
    ids = tokenizer.encode("hello")
    assert ids == [*b"hello"]
    assert tokenizer.encode("hello", parse_special=True) == [258, ord("o")]


def test_no_bos_unless_the_model_wants_one(load: Load, byte_level_metadata: dict[str, Any]) -> None:
    assert load(byte_level_metadata).encode("he") == [256]
    byte_level_metadata["tokenizer.ggml.add_bos_token"] = True
    tokenizer = load(byte_level_metadata)
    assert tokenizer.encode("he") == [BOS, 256]
    assert tokenizer.encode("he", add_bos=False) == [256]
    assert tokenizer.encode("") == [BOS]


def test_never_two_bos(load: Load, byte_level_metadata: dict[str, Any]) -> None:
    tokenizer = load(byte_level_metadata | {"tokenizer.ggml.add_bos_token": True})
    assert tokenizer.encode("<|begin|>he", parse_special=True) == [BOS, 256]
    assert tokenizer.encode_bytes(b"<|begin|>he", parse_special=True) == [BOS, 256]
    assert tokenizer.encode("<|begin|>he").count(BOS) == 1  # the typed one is text


def test_a_kind_may_want_bos_without_saying_so(load: Load, byte_level_metadata: dict[str, Any]) -> None:
    llama3 = byte_level_metadata | {"tokenizer.ggml.pre": "llama-bpe"}
    assert load(llama3).adds_bos
    del llama3["tokenizer.ggml.bos_token_id"]
    assert not load(llama3).adds_bos


def test_a_word_that_is_a_token_wins_over_merges_where_the_kind_says_so(
    load: Load, byte_level_metadata: dict[str, Any]
) -> None:
    byte_level_metadata["tokenizer.ggml.merges"] = ["h e"]
    assert load(byte_level_metadata).encode("hell") == [256, ord("l"), ord("l")]
    llama3 = byte_level_metadata | {"tokenizer.ggml.pre": "llama-bpe"}
    assert load(llama3).encode("hell", add_bos=False) == [258]


def test_token_bytes_of_every_kind(tokenizer: Tokenizer) -> None:
    assert tokenizer.token_bytes(0xE4) == b"\xe4"
    assert tokenizer.token_bytes(259) == b" he"
    assert tokenizer.token_bytes(TOOL) == b"<tool>"
    assert [tokenizer.token_bytes(i) for i in (BOS, IM_END, PAD)] == [b"", b"", b""]
    assert [tokenizer.kind(i) for i in (0, BOS, TOOL, PAD)] == [
        TokenKind.NORMAL,
        TokenKind.CONTROL,
        TokenKind.USER_DEFINED,
        TokenKind.UNUSED,
    ]


def test_token_text_is_for_the_eye(tokenizer: Tokenizer) -> None:
    shown = [tokenizer.token_text(i) for i in (0xE4, 259, BOS, TOOL, PAD)]
    assert shown == ["\\xe4", " he", "<|begin|>", "<tool>", "[PAD0]"]


def test_token_id_finds_a_token_by_its_text(tokenizer: Tokenizer) -> None:
    assert tokenizer.token_id("<|im_end|>") == IM_END
    assert tokenizer.token_id(" he") == 259
    assert tokenizer.token_id("no such token") is None


def test_control_tokens_are_written_out_when_asked(tokenizer: Tokenizer) -> None:
    ids = [BOS, 256, PAD, IM_END]
    assert tokenizer.decode(ids) == "he"
    assert tokenizer.decode(ids, skip_special=False) == "<|begin|>he[PAD0]<|im_end|>"


@pytest.mark.parametrize("token_id", [-1, 266])
def test_an_id_outside_the_vocabulary_is_refused(tokenizer: Tokenizer, token_id: int) -> None:
    with pytest.raises(BadRequest, match=f"from 0 to 265, got {token_id}"):
        tokenizer.decode([token_id])


def test_half_a_character_decodes_to_the_replacement_character(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode([*"é".encode()[:1]]) == "\ufffd"
    assert tokenizer.decode_bytes([*"é".encode()[:1]]) == b"\xc3"


def test_invalid_utf8_is_merged_like_any_other_bytes(load: Load, byte_level_metadata: dict[str, Any]) -> None:
    byte_level_metadata["tokenizer.ggml.tokens"][260] = "äĀ"  # bytes E4 00, no character
    byte_level_metadata["tokenizer.ggml.merges"] = ["h e", "ä Ā"]
    tokenizer = load(byte_level_metadata)
    assert tokenizer.encode_bytes(b"he\xe4\xffhe") == [256, 0xE4, 0xFF, 256]


def test_a_surrogate_escaped_argument_is_its_bytes(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("he\udcff") == [256, 0xFF]


def test_a_lone_surrogate_is_refused_by_position(tokenizer: Tokenizer) -> None:
    with pytest.raises(BadRequest, match=r"U\+D800 at character 2"):
        tokenizer.encode("he\ud800")


def test_what_is_not_text_is_a_type_error(tokenizer: Tokenizer) -> None:
    with pytest.raises(TypeError, match="got bytes; encode_bytes takes bytes"):
        tokenizer.encode(b"he")  # type: ignore[arg-type]


def test_a_byte_without_a_token_is_left_out_of_text_and_refused_in_bytes(
    load: Load, byte_level_metadata: dict[str, Any]
) -> None:
    byte_level_metadata["tokenizer.ggml.tokens"][4] = "rare"
    tokenizer = load(byte_level_metadata)
    assert tokenizer.missing_bytes == {4}
    assert tokenizer.decode(tokenizer.encode("a\x04b")) == "ab"
    with pytest.raises(BadRequest, match="byte 0x04 at offset 1"):
        tokenizer.encode_bytes(b"a\x04b")
    assert tokenizer.decode_bytes(tokenizer.encode_bytes(b"a\xffb")) == b"a\xffb"


def test_ends_are_what_is_declared_and_control_tokens_of_known_names(
    load: Load, byte_level_metadata: dict[str, Any]
) -> None:
    assert load(byte_level_metadata).eos_ids == {IM_END}
    byte_level_metadata["tokenizer.ggml.eos_token_id"] = BOS
    assert load(byte_level_metadata).eos_ids == {BOS, IM_END}
    byte_level_metadata["tokenizer.ggml.eot_token_id"] = TOOL
    tokenizer = load(byte_level_metadata)
    assert tokenizer.eos_ids == {BOS, IM_END, TOOL}
    assert tokenizer.token_bytes(TOOL) == b""  # an end is never text
    byte_level_metadata["tokenizer.ggml.token_type"][IM_END] = 1
    assert load(byte_level_metadata).eos_ids == {BOS, TOOL}  # ordinary text ends nothing


def test_names_tell_the_ends_of_a_file_without_token_types(
    load: Load, byte_level_metadata: dict[str, Any]
) -> None:
    del byte_level_metadata["tokenizer.ggml.token_type"], byte_level_metadata["tokenizer.ggml.eos_token_id"]
    tokenizer = load(byte_level_metadata)
    assert tokenizer.eos_ids == {IM_END}
    assert tokenizer.is_special(IM_END)


def test_special_tokens_have_the_names_of_chat_templates(tokenizer: Tokenizer) -> None:
    assert tokenizer.special_tokens == {"bos_token": "<|begin|>", "eos_token": "<|im_end|>"}


# A tokenizer is immutable: the examples may share the one of the fixture.
shared = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@shared
@given(text=st.text())
def test_any_text_survives(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert b"".join(map(tokenizer.token_bytes, ids)) == tokenizer.decode_bytes(ids) == text.encode()


@shared
@given(data=st.binary() | st.text().map(str.encode))
def test_any_bytes_survive(tokenizer: Tokenizer, data: bytes) -> None:
    assert tokenizer.decode_bytes(tokenizer.encode_bytes(data)) == data


@shared
@given(text=st.lists(st.sampled_from(["<|begin|>", "<|im_end|>", "<tool>", "he", " ", "<|"])).map("".join))
def test_parsed_control_tokens_survive_when_written_out(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text, parse_special=True), skip_special=False) == text


def test_a_literal_span_stays_plain_text(tokenizer: Tokenizer) -> None:
    text = "<|begin|><|im_end|><|im_end|>"
    ids = tokenizer.encode(text, parse_special=True, literal_spans=[(9, 19)])
    assert ids == [BOS, *tokenizer.encode("<|im_end|>"), IM_END]
    assert tokenizer.encode(text, literal_spans=[(9, 19)]) == tokenizer.encode(text)
    # one that begins before the span and ends in it does not count either
    assert BOS not in tokenizer.encode(text, parse_special=True, literal_spans=[(8, 9)])


@shared
@given(text=st.lists(st.sampled_from(["<|begin|>", "<|im_end|>", "<tool>", "he", " ", "<|"])).map("".join))
def test_with_an_empty_span_control_tokens_are_what_the_library_finds(
    tokenizer: Tokenizer, text: str
) -> None:
    by_us = tokenizer.encode(text, parse_special=True, literal_spans=[(0, 0)])
    assert by_us == tokenizer.encode(text, parse_special=True)


def test_bytes_in_the_text_do_not_open_literal_spans(tokenizer: Tokenizer) -> None:
    text = "<|begin|>\udcff<|im_end|>he<|im_end|>"
    ids = tokenizer.encode(text, parse_special=True, literal_spans=[(10, 20)])
    assert ids == [BOS, 0xFF, *tokenizer.encode("<|im_end|>he"), IM_END]
