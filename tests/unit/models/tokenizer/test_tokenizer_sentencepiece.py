"""SentencePiece vocabularies, on one of 277 tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unspool.errors import BadRequest
from unspool.models.tokenizer import Tokenizer, TokenKind

Load = Callable[[Mapping[str, Any]], Tokenizer]

UNK, BOS, EOS, BYTE_0 = 0, 1, 2, 3


@pytest.fixture
def tokenizer(load: Load, sentencepiece_metadata: dict[str, Any]) -> Tokenizer:
    """With the space before the first word, as Llama 2."""
    return load(sentencepiece_metadata)


@pytest.fixture
def without_prefix(load: Load, sentencepiece_metadata: dict[str, Any]) -> Tokenizer:
    """Without it, as Gemma."""
    return load(sentencepiece_metadata | {"tokenizer.ggml.add_space_prefix": False})


def pieces(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    return [tokenizer.token_text(i) for i in ids]


def test_the_best_scored_piece_is_merged_first(without_prefix: Tokenizer) -> None:
    # ab scores better than bc and than anything longer; abc is made of ab and c
    assert pieces(without_prefix, without_prefix.encode("abc bc", add_bos=False)) == ["abc", " ", "bc"]
    assert pieces(without_prefix, without_prefix.encode("aabc", add_bos=False)) == ["a", "abc"]


def test_a_model_adds_bos_and_a_space_before_the_first_word_unless_it_says_otherwise(
    tokenizer: Tokenizer,
) -> None:
    assert tokenizer.adds_bos
    assert tokenizer.strips_leading_space
    ids = tokenizer.encode("a b")
    assert ids[0] == BOS
    assert pieces(tokenizer, ids[1:]) == [" a", " ", "b"]
    assert tokenizer.decode(ids) == "a b"


def test_the_empty_text_gets_no_space(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("") == [BOS]
    assert tokenizer.encode("", add_bos=False) == []
    assert tokenizer.encode_bytes(b"", add_bos=False) == []


@pytest.mark.parametrize("text", ["a", " a", " ", "a ", "\n a", " \n a"])
def test_leading_spaces_survive_the_space_before_the_first_word(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode_bytes(tokenizer.encode_bytes(text.encode())) == text.encode()


def test_only_the_beginning_of_a_text_loses_its_space(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("a a", add_bos=False)
    assert tokenizer.decode(ids) == "a a"
    assert tokenizer.decode(ids, continues=True) == " a a"
    assert b"".join(map(tokenizer.token_bytes, ids)) == tokenizer.decode_bytes(ids, continues=True)


def test_every_control_token_is_followed_by_the_space_before_a_first_word(tokenizer: Tokenizer) -> None:
    # Each turn of a Llama 2 conversation is encoded as a text of its own.
    ids = tokenizer.encode("<s>a</s><s>b", parse_special=True)
    assert ids[0] == BOS
    assert pieces(tokenizer, ids) == ["<s>", " a", "</s>", "<s>", " ", "b"]
    assert tokenizer.decode(tokenizer.encode("<s>a", parse_special=True), skip_special=False) == "<s>a"


def test_never_two_bos(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("<s>a", parse_special=True).count(BOS) == 1
    assert tokenizer.encode("<s>a").count(BOS) == 1


def test_pieces_never_merge_into_a_control_token(tokenizer: Tokenizer) -> None:
    # "<" + "s>" and "<" + "/s>" are pieces whose sum is the text of a control token
    ids = tokenizer.encode("<s></s>", add_bos=False)
    assert pieces(tokenizer, ids) == [" ", "<", "s>", "<", "/s>"]


def test_a_byte_token_typed_out_is_text(without_prefix: Tokenizer) -> None:
    ids = without_prefix.encode("<0x0A>", add_bos=False)
    assert BYTE_0 + 0x0A not in ids
    assert without_prefix.decode(ids) == "<0x0A>"


def test_characters_without_a_piece_become_their_bytes(without_prefix: Tokenizer) -> None:
    ids = without_prefix.encode("aé", add_bos=False)
    assert ids[1:] == [BYTE_0 + 0xC3, BYTE_0 + 0xA9]
    assert without_prefix.kind(ids[1]) == TokenKind.BYTE
    assert without_prefix.decode(ids) == "aé"
    assert without_prefix.token_bytes(ids[1]) == b"\xc3"


def test_runs_of_spaces_are_the_longest_user_defined_tokens(without_prefix: Tokenizer) -> None:
    ids = without_prefix.encode("a" + " " * 7 + "b", add_bos=False)
    assert pieces(without_prefix, ids) == ["a", "   ", "   ", " ", "b"]


def test_a_literal_mark_is_a_space_in_text_and_itself_in_bytes(without_prefix: Tokenizer) -> None:
    assert without_prefix.encode("a\u2581\u2581b") == without_prefix.encode("a  b")
    data = "a\u2581b".encode()
    assert without_prefix.decode_bytes(without_prefix.encode_bytes(data)) == data


def test_bytes_that_are_no_text_get_no_space_around_them(tokenizer: Tokenizer) -> None:
    for data in (b"\xffa b", b"a\xff b", b" \xff a", b"\xff", b"\xff ", "\u2581a".encode()):
        assert tokenizer.decode_bytes(tokenizer.encode_bytes(data)) == data


@pytest.fixture
def no_byte_tokens(load: Load, sentencepiece_metadata: dict[str, Any]) -> Tokenizer:
    sentencepiece_metadata["tokenizer.ggml.token_type"][3:259] = [5] * 256
    return load(sentencepiece_metadata)


def test_text_without_any_token_is_unknown_and_bytes_without_any_are_refused(
    no_byte_tokens: Tokenizer,
) -> None:
    ids = no_byte_tokens.encode("aéa")
    assert UNK in ids
    assert no_byte_tokens.decode(ids) == "aa"
    for data in ("aéa".encode(), b"a\xffa"):
        with pytest.raises(BadRequest, match="has no token in the vocabulary"):
            no_byte_tokens.encode_bytes(data)
    assert no_byte_tokens.decode_bytes(no_byte_tokens.encode_bytes(b"abc")) == b"abc"


def test_an_unknown_token_is_parsed_by_name_and_is_never_text(tokenizer: Tokenizer) -> None:
    assert UNK in tokenizer.encode("<unk>", parse_special=True)
    assert tokenizer.is_special(UNK)
    assert tokenizer.token_bytes(UNK) == b""


def test_phi3_control_tokens_eat_the_blanks_after_them(
    load: Load, sentencepiece_metadata: dict[str, Any]
) -> None:
    phi3 = load(sentencepiece_metadata | {"general.architecture": "phi3"})
    ids = phi3.encode("</s> \n a", parse_special=True)
    assert pieces(phi3, ids) == ["<s>", "</s>", " a"]
    assert pieces(phi3, phi3.encode("<s> a", parse_special=True)) == ["<s>", " ", " a"]


def test_ids_that_older_files_leave_out_have_defaults(
    load: Load, sentencepiece_metadata: dict[str, Any]
) -> None:
    for role in ("bos", "eos", "unknown"):
        del sentencepiece_metadata[f"tokenizer.ggml.{role}_token_id"]
    tokenizer = load(sentencepiece_metadata)
    assert (tokenizer.bos_id, tokenizer.eos_ids) == (BOS, {EOS})
    assert tokenizer.special_tokens == {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


shared = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
_texts = st.text() | st.text(alphabet="abcs<>/ \n\u2581é")


def test_a_text_starts_anew_after_a_user_defined_token(tokenizer: Tokenizer) -> None:
    # as the references have it; bytes are exact all the same
    assert pieces(tokenizer, tokenizer.encode("a<tool>a", add_bos=False)) == [" a", "<tool>", " a"]
    ids = tokenizer.encode_bytes(b"a<tool>a", add_bos=False)
    assert pieces(tokenizer, ids) == [" ", "a", "<tool>", "a"]
    for data in (b"<tool>a", b"<tool>", b"\n\na", b"  a", b"   a", b"    ", b" <tool>"):
        assert tokenizer.decode_bytes(tokenizer.encode_bytes(data)) == data


@shared
@given(text=_texts)
def test_any_text_without_marks_survives(without_prefix: Tokenizer, text: str) -> None:
    assert without_prefix.decode(without_prefix.encode(text)) == text.replace("\u2581", " ")


@shared
@given(text=_texts.filter(lambda text: not any(piece in text for piece in ("  ", "\n\n", "\u2581"))))
def test_any_text_survives_the_space_before_it(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


@shared
@given(data=st.binary() | _texts.map(str.encode))
def test_any_bytes_survive(tokenizer: Tokenizer, without_prefix: Tokenizer, data: bytes) -> None:
    for each in (tokenizer, without_prefix):
        ids = each.encode_bytes(data)
        assert each.decode_bytes(ids) == data
        assert b"".join(map(each.token_bytes, ids)) == each.decode_bytes(ids, continues=True)


@shared
@given(
    text=st.lists(st.sampled_from(["<s>", "</s>", "<unk>", "<tool>", "a", " ", "abc", "\n\n"])).map("".join)
)
def test_with_an_empty_span_control_tokens_are_what_the_library_finds(
    tokenizer: Tokenizer, without_prefix: Tokenizer, text: str
) -> None:
    for each in (tokenizer, without_prefix):
        by_us = each.encode(text, parse_special=True, literal_spans=[(0, 0)])
        assert by_us == each.encode(text, parse_special=True)


def test_phi3_eats_blanks_around_literal_spans_too(
    load: Load, sentencepiece_metadata: dict[str, Any]
) -> None:
    phi3 = load(sentencepiece_metadata | {"general.architecture": "phi3"})
    text = "</s> \n a</s>b"
    ids = phi3.encode(text, parse_special=True, literal_spans=[(8, 12)])
    assert pieces(phi3, ids) == ["<s>", "</s>", " a", "<", "/s>", "b"]
