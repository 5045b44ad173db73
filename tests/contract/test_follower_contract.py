"""What everything that follows a branch's text owes: `accept` moves it forward, `fork` copies it whole."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from toy_engine import ToyVocabulary

from unspool.engine.detokenize import Detokenizer
from unspool.engine.rules import rules_of
from unspool.engine.stop import StopMatcher, StopString
from unspool.engine.transcript import StopRules, Transcript
from unspool.params import DecodingParams

PIECES = [b"a", b"b", b"ab", b"\xe4", b"\xb8\x96", b"", b"a\xe4\xb8", b"\xff"]
VOCABULARY = ToyVocabulary(PIECES)
STOPS = ("abab", "世b", "bbb")
PARAMS = DecodingParams(stop=STOPS)


def new_matcher():
    return StopMatcher([StopString.compile(stop) for stop in STOPS])


def new_transcript():
    return Transcript(StopRules.of(PARAMS, rules_of(PARAMS, VOCABULARY)), VOCABULARY)


def told_by_transcript(follower, token_id):
    stop = follower.accept(token_id)
    return stop, follower.take(), tuple(follower.token_ids), stop is not None


def told_by_matcher(follower, token_id):
    match = follower.accept(PIECES[token_id])
    return match, follower.n_held, match is not None


def told_by_detokenizer(follower, token_id):
    return follower.accept(PIECES[token_id]), False


FOLLOWERS = {
    "stop matcher": (new_matcher, told_by_matcher),
    "detokenizer": (Detokenizer, told_by_detokenizer),
    "transcript": (new_transcript, told_by_transcript),
}

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
