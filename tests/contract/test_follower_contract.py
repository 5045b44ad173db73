"""What everything that follows a branch's text owes: `accept` moves on, `rollback` undoes, `fork` copies."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from toy_engine import ToyVocabulary

from unspool.automaton import compile_pattern
from unspool.engine.detokenize import Detokenizer
from unspool.engine.loop import LoopDetector
from unspool.engine.notes import Notes
from unspool.engine.rules import rules_of
from unspool.engine.stop import StopMatcher, StopString
from unspool.engine.stop_regex import RegexMatcher
from unspool.engine.transcript import StopRules, Transcript
from unspool.history import History
from unspool.params import DecodingParams
from unspool.types import Chosen

PIECES = [b"a", b"b", b"ab", b"\xe4", b"\xb8\x96", b"", b"a\xe4\xb8", b"\xff"]
VOCABULARY = ToyVocabulary(PIECES)
STOPS = ("abab", "世b", "bbb")
PATTERNS = ("b.*世", "(?i)A+ab", r"\Ba\b.")
PARAMS = DecodingParams(stop=STOPS, stop_regex=PATTERNS, loop_min_count=3, loop_max_length=3)


def new_matcher():
    return StopMatcher([StopString.compile(stop) for stop in STOPS])


def new_regex_matcher():
    return RegexMatcher([compile_pattern(pattern) for pattern in PATTERNS])


def new_transcript():
    return Transcript(StopRules.of(PARAMS, rules_of(PARAMS, VOCABULARY)), VOCABULARY)


def told_by_transcript(follower, token_id):
    """What it gives away, without taking it: what was taken cannot be undone."""
    ending = follower.accept(token_id)
    return ending, follower.fork().take(), tuple(follower.token_ids), ending is not None


def told_by_taking(follower, token_id):
    ending = follower.accept(token_id)
    return ending, follower.take(), tuple(follower.token_ids), ending is not None


def told_by_matcher(follower, token_id):
    match = follower.accept(PIECES[token_id])
    return match, follower.n_held, match is not None


def told_by_notes(follower, token_id):
    follower.accept(Chosen(token_id))
    return list(follower._waiting), False


def told_by_loops(follower, token_id):
    return follower.accept(token_id), False


def told_by_detokenizer(follower, token_id):
    return follower.accept(PIECES[token_id]), False


HISTORIES = {
    "counts": DecodingParams(repetition_penalty=2, frequency_penalty=1),
    "counts in a window": DecodingParams(presence_penalty=1, penalty_window=2, penalty_scope="all"),
    "repeats": DecodingParams(dry_multiplier=1, dry_allowed_length=1, dry_breakers=["ab", "b世"]),
    "repeats in a window": DecodingParams(dry_multiplier=1, dry_window=5),
    "n-grams": DecodingParams(no_repeat_ngram_size=2),
    "tokens once": DecodingParams(no_repeat_ngram_size=1),
    "bad words": DecodingParams(bad_words=["aab", "b"]),
    "mirostat": DecodingParams(mirostat=2),
}


def new_history(params):
    return History(params, rules_of(params, VOCABULARY), [1, 0, 1, 0, 0])


def told_by_history(follower, token_id):
    """Everything that it says, in an order of its own where none is promised."""
    follower.accept(token_id, observed=token_id / 8)
    counts = None if follower.tally is None else sorted(follower.tally.counts().items())
    edits = [array.tolist() for array in follower.dry_edits()]
    running = None if follower.running is None else follower.running.value
    return counts, edits, follower.banned_next().tolist(), running, False


FOLLOWERS = {
    **{
        f"history of {name}": (partial(new_history, params), told_by_history)
        for name, params in HISTORIES.items()
    },
    "stop matcher": (new_matcher, told_by_matcher),
    "regex matcher": (new_regex_matcher, told_by_matcher),
    "loop detector": (lambda: LoopDetector(3, 3), told_by_loops),
    "notes": (Notes, told_by_notes),
    "detokenizer": (Detokenizer, told_by_detokenizer),
    "transcript": (new_transcript, told_by_transcript),
    "transcript, taken": (new_transcript, told_by_taking),
}
UNDOABLE = [kind for kind in FOLLOWERS if kind != "transcript, taken"]

ids = st.lists(st.integers(0, len(PIECES) - 1), max_size=8)


def follow(follower, tell, token_ids):
    """What it says to each token, up to the one that ends the text."""
    said = []
    for token_id in token_ids:
        said.append(tell(follower, token_id))
        if said[-1][-1]:
            break
    return said


@pytest.mark.parametrize("kind", FOLLOWERS)
@given(past=ids, left=ids, right=ids)
def test_a_fork_and_its_origin_go_on_as_if_each_had_been_alone(kind, past, left, right):
    new, tell = FOLLOWERS[kind]
    origin = new()
    said = follow(origin, tell, past)
    assume(not said or not said[-1][-1])  # what has ended is not forked
    child = origin.fork()
    heard = {"left": follow(child, tell, left), "right": follow(origin, tell, right)}
    for name, future in (("left", left), ("right", right)):
        assert said + heard[name] == follow(new(), tell, past + future)


@pytest.mark.parametrize("kind", UNDOABLE)
@given(past=ids, wrong=ids, future=ids)
def test_what_is_undone_leaves_no_trace(kind, past, wrong, future):
    new, tell = FOLLOWERS[kind]
    follower = new()
    said = follow(follower, tell, past)
    assume(not said or not said[-1][-1])
    follower.rollback(len(follow(follower, tell, wrong)))
    assert said + follow(follower, tell, future) == follow(new(), tell, past + future)


@pytest.mark.parametrize("kind", UNDOABLE)
def test_more_than_was_accepted_cannot_be_undone(kind):
    new, tell = FOLLOWERS[kind]
    follower = new()
    follow(follower, tell, [0, 1])
    with pytest.raises(AssertionError):
        follower.rollback(3)
