"""What users of engines expect of stopping, from their complaints.

A stop string inside a beam search waits for beam search.
"""

from __future__ import annotations

import pytest
from scripted import vocabulary_of, write

LETTERS = vocabulary_of(*"ABCDEFGHIJ", "DEF", "HI", "\n", " six", ",", " five")
A, DEF, G, HI, J = 1, 11, 7, 12, 10
NEWLINE, SIX, COMMA, FIVE = 13, 14, 15, 16


def test_min_tokens_200_with_a_stop_at_every_newline_writes_200_tokens_first():
    told = write([A, NEWLINE] * 300, LETTERS, min_tokens=200, stop=["\n"])
    assert told.last.stop == "\n"
    assert told.text == "A\n" * 99 + "A"  # the 200th token is a newline: the first that may end the text
    assert len(told.token_ids) == 199


@pytest.mark.parametrize("stops", [{"stop": ["\n"]}, {"stop_regex": [r"\s"]}, {"stop_token_ids": [NEWLINE]}])
def test_no_kind_of_stop_ends_a_text_before_min_tokens(stops):
    assert write([A, NEWLINE] * 20, LETTERS, **stops).text == "A"
    told = write([A, NEWLINE] * 20, LETTERS, min_tokens=11, **stops)
    assert len(told.token_ids) >= 11
    assert told.last.finish_reason == "stop"


def test_a_text_that_wants_to_end_at_once_has_exactly_min_tokens_tokens_and_then_ends():
    told = write([], LETTERS, min_tokens=7)
    assert len(told.token_ids) == 7
    assert (told.last.finish_reason, told.last.stop) == ("stop", 0)
    assert write([], LETTERS, min_tokens=7, include_stop=True).token_ids[7:] == (0,)


def test_a_stop_string_that_comes_in_pieces_is_never_streamed():
    told = write([DEF, G, HI, J, A], LETTERS, stop=["DEFGHIJ"])
    assert told.deltas == [""]
    assert (told.text, told.token_ids, told.last.stop) == ("", (), "DEFGHIJ")


def test_what_only_looked_like_a_stop_string_is_streamed_as_soon_as_it_is_none():
    told = write([DEF, G, HI, A, J], LETTERS, stop=["DEFGHIJ"])
    assert told.deltas[:2] == ["DEFGHIA", "J"]


def test_counting_stops_at_six():
    told = write([COMMA, FIVE, COMMA, SIX, COMMA], LETTERS, stop=["six"])
    assert told.text == ", five, "


def test_a_stream_of_half_characters_is_never_shown_and_never_taken_back():
    vocabulary = vocabulary_of("A ", b"\xe4\xb8", b"\x96a", "b")
    told = write([1, 2, 3, 4], vocabulary)
    assert told.text == "A 世ab"
    assert told.deltas == ["A ", "", "世a", "b", ""]


def test_a_stop_string_fires_when_its_character_comes_as_byte_tokens():
    vocabulary = vocabulary_of("a", b"\xe3", b"\x80", b"\x82", "b")
    told = write([1, 2, 3, 4, 5], vocabulary, stop=["。"])
    assert (told.text, told.last.stop) == ("a", "。")
    assert write([1, 2, 3, 4, 5], vocabulary, stop_regex=["[。!]"]).text == "a"


def test_text_ids_log_probabilities_and_usage_end_at_the_same_token():
    events = write([A, DEF, G, HI, J], LETTERS, stop=["EFGH"], logprobs=1)
    assert (events.text, events.token_ids) == ("AD", (A, DEF))
    assert events.last.usage.completion_tokens == 2


def test_the_stop_that_ended_the_text_is_reported():
    assert write([A, DEF, G], LETTERS, stop=["FG", "EFG"]).last.stop == "EFG"
    assert write([A, DEF, G], LETTERS, stop_regex=["[X-Z]", "E?F"]).last.stop == "E?F"
    assert write([A, DEF, G], LETTERS, stop_token_ids=[G]).last.stop == G
    assert write([A, DEF], LETTERS).last.stop == 0


def test_a_text_that_goes_round_in_circles_can_be_ended():
    told = write([A, DEF, G] * 50, LETTERS, loop_min_count=4)
    assert told.last.finish_reason == "loop"
    assert told.text == "ADEFG" * 4
