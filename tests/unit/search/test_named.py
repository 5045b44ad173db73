"""Searches as they are typed."""

from __future__ import annotations

import pytest

from unspool.errors import BadRequest
from unspool.search.beam import Beam
from unspool.search.beam_sample import BeamSample
from unspool.search.constrained_beam import ConstrainedBeam
from unspool.search.diverse_beam import DiverseBeam
from unspool.search.named import described, search_of
from unspool.search.stochastic_beam import StochasticBeam


@pytest.mark.parametrize(
    ("text", "n", "expected"),
    [
        ("sample", None, None),
        ("sample", 3, None),
        ("beam", None, Beam()),
        ("beam", 3, Beam(n_best=3)),
        ("beam", 9, Beam(width=9, n_best=9)),
        ("beam:width=8,alpha=0.6,length-norm=gnmt", None, Beam(width=8, alpha=0.6, length_norm="gnmt")),
        ("beam:early_stopping=never", 1, Beam(early_stopping="never")),
        ("beam:early_stopping=True", None, Beam(early_stopping=True)),
        ("beam-sample:width=6", 2, BeamSample(width=6, n_best=2)),
        ("beam-sample", 9, BeamSample(width=9, n_best=9)),
        ("diverse-beam:width=6,groups=3,strength=2", 2, DiverseBeam(width=6, groups=3, strength=2, n_best=2)),
        ("stochastic-beam:k=5", None, StochasticBeam(5)),
        ("stochastic-beam", 7, StochasticBeam(7)),
    ],
)
def test_a_name_with_settings_is_a_search(text, n, expected):
    assert search_of(text, n) == expected


@pytest.mark.parametrize(
    ("text", "must_contain", "phrases", "width"),
    [
        ("constrained-beam", ["a b"], ["a b"], 8),
        ("constrained-beam:width=5", ["car|automobile", "x"], [["car", "automobile"], "x"], 5),
        ("constrained-beam", ["a\\|b"], ["a|b"], 8),
    ],
)
def test_phrases_are_given_beside_the_name(text, must_contain, phrases, width):
    assert search_of(text, None, must_contain) == ConstrainedBeam(phrases=phrases, width=width)
    assert search_of(text, 2, must_contain).n_best == 2


@pytest.mark.parametrize(
    ("text", "must_contain", "message"),
    [
        ("beam", ["a"], "search beam knows no phrases; with --must-contain give --search constrained-beam"),
        ("sample", ["a"], "search sample knows no phrases"),
        ("constrained-beam", [], "search constrained-beam needs phrases that answers must contain"),
        ("constrained-beam", ["a||b"], "none of them empty, got 'a||b'"),
        ("constrained-beam:phrases=a", ["a"], "search constrained-beam has no setting 'phrases=a'"),
    ],
)
def test_a_mistake_with_phrases_names_the_way_out(text, must_contain, message):
    with pytest.raises(BadRequest) as caught:
        search_of(text, None, must_contain)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "n", "message"),
    [
        ("beem", None, "there is no search 'beem'; did you mean 'beam'? there are: sample, beam,"),
        ("sample:k=1", None, "search sample has no settings, got 'k=1'; -n says how many answers"),
        ("beam:wide=3", None, "search beam has no setting 'wide=3'; write width=VALUE, n_best=VALUE,"),
        ("beam:width=4,width=3", None, "search beam is given width twice; keep one"),
        ("beam:width", None, "search beam has no setting 'width'"),
        ("beam:width=0", None, "width must be a whole number in [1, 256], got 0"),
        ("beam:width=x", None, "width must be a whole number in [1, 256], got 'x'"),
        ("beam:n_best=2", 3, "n=3 and n_best=2 both say how many answers"),
    ],
)
def test_a_mistake_names_the_way_out(text, n, message):
    with pytest.raises(BadRequest) as caught:
        search_of(text, n)
    assert message in str(caught.value)


def test_more_answers_than_the_width_are_refused_in_the_words_that_were_used():
    with pytest.raises(
        BadRequest, match="n=5 is more answers than a search with width=4 has; ask for 4 at most"
    ):
        search_of("beam:width=4", 5)


@pytest.mark.parametrize(
    "text", ["beam:width=5,n_best=2", "stochastic-beam:k=3", "diverse-beam", "beam-sample"]
)
def test_a_search_is_described_by_its_name_and_settings(text):
    search = search_of(text, None)
    told = described(search)
    assert told.pop("name") == text.split(":")[0]
    assert type(search)(**told) == search
