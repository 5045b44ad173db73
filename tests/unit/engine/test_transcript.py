"""Text, ids and streaming of one branch: everything is cut at the same place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_engine import ToyVocabulary

from unspool.engine.rules import rules_of
from unspool.engine.transcript import StopRules, Transcript
from unspool.params import DecodingParams

ALPHABET = ToyVocabulary(
    [b"<eos>", b"ABC", b"DEF", b"G", b"HI", b"J", b"xE", b"\xe4\xb8", b"\x96", b""], ends=(0,)
)


def transcript(vocabulary=ALPHABET, is_followed=True, **params):
    params = DecodingParams(**params)
    rules = StopRules.of(params, rules_of(params, vocabulary))
    return Transcript(rules, vocabulary, is_followed=is_followed)


def write(follower, ids):
    """Feed ids until the text ends; (stop, text, ids, deltas)."""
    ending, deltas, reported = None, [], ()
    for token_id in ids:
        ending = follower.accept(token_id)
        text, final = follower.take()
        deltas.append(text)
        reported += final
        if ending is not None:
            break
    else:
        follower.close()
        text, final = follower.take()
        deltas.append(text)
        reported += final
    assert reported == tuple(follower.token_ids)
    return ending and ending.stop, "".join(deltas), reported, deltas


def test_no_part_of_a_stop_string_is_ever_streamed():
    assert write(transcript(stop="DEFGHIJ"), [1, 2, 3, 4, 5]) == (
        "DEFGHIJ",
        "ABC",
        (1,),
        ["ABC", "", "", "", ""],
    )


def test_what_was_held_back_comes_out_when_the_stop_string_does_not():
    assert write(transcript(stop="DEFGHIJ"), [1, 2, 3, 1])[3] == ["ABC", "", "", "DEFGABC", ""]


def test_what_was_held_back_comes_out_at_the_end():
    assert write(transcript(stop="DEFGHIJ"), [1, 2, 3]) == (
        None,
        "ABCDEFG",
        (1, 2, 3),
        ["ABC", "", "", "DEFG"],
    )


def test_a_token_with_a_byte_before_the_cut_stays_and_the_rest_go():
    assert write(transcript(stop="EF"), [1, 2, 3]) == ("EF", "ABCD", (1, 2), ["ABC", "D"])
    assert write(transcript(stop="DE"), [1, 2]) == ("DE", "ABC", (1,), ["ABC", ""])
    assert write(transcript(stop="EDE"), [6, 2]) == ("EDE", "x", (6,), ["x", ""])


def test_include_stop_keeps_the_text_to_the_end_of_the_match():
    assert write(transcript(stop="DE", include_stop=True), [1, 2])[:3] == ("DE", "ABCDE", (1, 2))


def test_an_end_of_sequence_id_leaves_no_trace_unless_asked():
    assert write(transcript(), [1, 0]) == (0, "ABC", (1,), ["ABC", ""])
    assert write(transcript(include_stop=True), [1, 0])[:3] == (0, "ABC", (1, 0))
    assert write(transcript(ignore_eos=True), [1, 0, 3])[:3] == (None, "ABCG", (1, 0, 3))


def test_a_stop_token_id_is_cut_with_its_text_unless_asked():
    assert write(transcript(stop_token_ids=[3]), [1, 3])[:3] == (3, "ABC", (1,))
    assert write(transcript(stop_token_ids=[3], include_stop=True), [1, 3])[:3] == (3, "ABCG", (1, 3))


def test_the_first_token_may_end_everything():
    assert write(transcript(), [0])[:3] == (0, "", ())
    assert write(transcript(stop="A"), [1])[:3] == ("A", "", ())


def test_a_stop_string_that_comes_in_bytes_is_found():
    assert write(transcript(stop="世"), [1, 7, 8])[:3] == ("世", "ABC", (1,))


def test_a_character_cut_in_half_by_the_end_is_one_replacement():
    assert write(transcript(), [1, 7])[:3] == (None, "ABC\ufffd", (1, 7))


def test_tokens_without_text_stay_before_the_cut_and_go_after_it():
    assert write(transcript(stop="GHI"), [1, 9, 3, 9, 4])[:3] == ("GHI", "ABC", (1, 9))


def test_nothing_may_follow_the_end():
    follower = transcript()
    follower.accept(0)
    with pytest.raises(AssertionError, match="the text has ended"):
        follower.accept(1)


def test_a_fork_goes_its_own_way():
    follower = transcript(stop="DEFG")
    follower.accept(1)
    follower.accept(2)
    follower.take()
    other = follower.fork()
    assert other.accept(3).stop == "DEFG"
    assert other.take() == ("", ())
    assert follower.accept(4) is None
    assert follower.take() == ("DEFHI", (2, 4))


def test_a_pattern_cuts_text_and_ids_where_its_match_begins():
    assert write(transcript(stop_regex="D.*J"), [1, 2, 3, 4, 5])[:3] == ("D.*J", "ABC", (1,))
    assert write(transcript(stop_regex="C?D.F", include_stop=True), [1, 2, 3])[:3] == (
        "C?D.F",
        "ABCDEF",
        (1, 2),
    )


def test_no_part_of_a_match_is_streamed_and_nothing_else_is_held_back():
    assert write(transcript(stop_regex="FG[^H]"), [1, 2, 3, 4])[3] == ["ABC", "DE", "", "FGHI", ""]


def test_a_pattern_that_begins_inside_a_character_that_waits_cuts_before_its_token():
    assert write(transcript(stop_regex="世"), [1, 7, 8])[:3] == ("世", "ABC", (1,))


def test_of_a_string_and_a_pattern_the_one_that_is_complete_first_wins_then_the_earlier_start():
    assert write(transcript(stop="EF", stop_regex="D"), [1, 2])[:2] == ("D", "ABC")
    assert write(transcript(stop="DE", stop_regex="[F-H]"), [1, 2])[:2] == ("DE", "ABC")
    assert write(transcript(stop="DE", stop_regex="CDE"), [1, 2])[:2] == ("CDE", "AB")
    assert write(transcript(stop="DE", stop_regex="D[E]"), [1, 2])[0] == "DE"


def test_a_match_settled_by_the_next_character_ends_before_it():
    assert write(transcript(stop_regex=r"BC\b", include_stop=True), [1, 2])[:3] == (None, "ABCDEF", (1, 2))
    assert write(transcript(stop_regex=r"\BC(?a:\b)", include_stop=True), [1, 7, 8])[:3] == (
        r"\BC(?a:\b)", "ABC", (1,)
    )  # fmt: skip


def test_before_min_tokens_no_string_and_no_pattern_ends_the_text():
    for stops in ({"stop": "G"}, {"stop_regex": "[G]"}):
        stop = next(iter(stops.values()))
        follower = transcript(**stops, min_tokens=3)
        assert write(follower, [3, 1, 3, 1])[:3] == (stop, "GABC", (3, 1))  # the third may end it
        assert write(transcript(**stops, min_tokens=4), [3, 1, 3, 1, 1])[:3] == (
            None,
            "GABCGABCABC",
            (3, 1, 3, 1, 1),
        )


def test_a_match_that_begins_before_min_tokens_counts_when_it_is_complete_after():
    assert write(transcript(stop="DEFG", min_tokens=3), [1, 2, 3])[:3] == ("DEFG", "ABC", (1,))
    assert write(transcript(stop="EFG", min_tokens=4), [1, 2, 3, 1])[:3] == (None, "ABCDEFGABC", (1, 2, 3, 1))


def test_an_end_id_that_was_chosen_before_min_tokens_ends_the_text():
    assert write(transcript(min_tokens=4), [1, 0])[:3] == (0, "ABC", (1,))


def test_a_loop_ends_the_text_and_keeps_all_of_it():
    follower = transcript(loop_min_count=3, loop_max_length=2)
    for token_id in [1, 2, 3, 2, 3, 2]:
        assert follower.accept(token_id) is None
    ending = follower.accept(3)
    assert (ending.reason, ending.stop) == ("loop", None)
    assert follower.take() == ("ABCDEFGDEFGDEFG", (1, 2, 3, 2, 3, 2, 3))


def test_before_min_tokens_no_loop_ends_the_text():
    follower = transcript(loop_min_count=2, min_tokens=4)
    assert [follower.accept(2) and "loop" for _ in range(4)] == [None, None, None, "loop"]


def test_what_was_taken_cannot_be_undone():
    follower = transcript()
    follower.accept(1)
    follower.take()
    with pytest.raises(AssertionError, match="tokens that were taken stay"):
        follower.rollback(1)


def test_a_stop_that_is_undone_lets_the_text_go_on():
    follower = transcript(stop="EF", stop_token_ids=[3])
    follower.accept(1)
    assert follower.accept(2).stop == "EF"
    follower.rollback(1)
    assert follower.accept(6) is None
    assert follower.accept(3).stop == 3
    follower.rollback(2)
    follower.close()
    assert follower.take() == ("ABC", (1,))


@given(
    st.lists(st.sampled_from(["a", "b", "ab", "ba", "世", "bb"]), max_size=3),
    st.lists(st.integers(1, 7), max_size=14),
    st.booleans(),
    st.sampled_from(["stop", "stop_regex"]),
)
def test_streams_join_to_the_cut_text_and_ids_cover_it(stops, ids, include, kind):
    vocabulary = ToyVocabulary([b"", b"a", b"b", b"ab", b"", b"\xe4", b"\xb8\x96", b"aab"])
    follower = transcript(vocabulary, **{kind: stops}, include_stop=include)
    stop, text, kept, deltas = write(follower, ids)
    whole = b"".join(vocabulary.tokens[i] for i in ids)
    found = [
        (start + len(s.encode()), start, i)
        for i, s in enumerate(stops)
        for start in range(len(whole))
        if whole.startswith(s.encode(), start)
    ]
    if not found:
        assert (stop, text, kept) == (None, whole.decode(errors="replace"), tuple(ids))
    else:
        end, start, i = min(found)
        cut = end if include else start
        assert (stop, text) == (stops[i], whole[:cut].decode(errors="replace"))
        assert kept == tuple(ids[: len(kept)])
        covered = b"".join(vocabulary.tokens[t] for t in kept)
        assert covered.startswith(whole[:cut])
        assert len(covered) - len(vocabulary.tokens[kept[-1]] if kept else b"") <= cut
    assert "".join(deltas) == text


@given(st.lists(st.integers(1, 9), max_size=12), st.integers(0, 12), st.integers(0, 3))
def test_a_text_that_nobody_follows_is_spelled_when_it_is_asked_for(ids, n_before, n_undone):
    quiet, followed = transcript(is_followed=False), transcript()
    told = [followed.tell(token_id) for token_id in ids]
    assert [quiet.tell(token_id) for token_id in ids[:n_before]] == [""] * len(ids[:n_before])
    copy = quiet.fork()
    for token_id in [3] * n_undone:
        copy.tell(token_id)
    copy.rollback(n_undone)
    for token_id in ids[n_before:]:
        assert copy.accept(token_id) is None
    followed.close()
    copy.close()
    text, all_ids = copy.take()
    assert text == "".join(told) + followed.take()[0]
    assert all_ids == tuple(ids)
    quiet.close()
    assert quiet.take() == write(transcript(), ids[:n_before])[1:3]
