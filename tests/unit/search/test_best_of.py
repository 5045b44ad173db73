"""What best-of-n is asked for, as data."""

from __future__ import annotations

import pytest

from unspool.errors import BadRequest, ParameterConflict
from unspool.params import DecodingParams
from unspool.search.beam import Beam
from unspool.search.best_of import BestOf
from unspool.search.sample import Sample
from unspool.search.stochastic_beam import StochasticBeam
from unspool.search.verifiers.logprob import MeanLogprob
from unspool.search.verifiers.regex import Regex

SAMPLED = DecodingParams(temperature=0.8)


def test_a_verifier_that_reads_log_probabilities_gets_them():
    assert BestOf(n=2, verifier=MeanLogprob()).params(SAMPLED).logprobs == 0
    asked = DecodingParams(temperature=0.8, logprobs=3)
    assert BestOf(n=2, verifier=MeanLogprob()).params(asked) is asked
    assert BestOf(n=2, verifier=Regex("x")).params(SAMPLED) is SAMPLED


def test_equal_answers_are_refused():
    greedy = DecodingParams(temperature=0)
    with pytest.raises(ParameterConflict, match="2 equal answers"):
        BestOf(n=2, verifier=Regex("x")).params(greedy)
    assert BestOf(n=1, verifier=Regex("x")).params(greedy) is greedy


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"n": 0}, "n must be"),
        ({"n": 2.0}, "n must be"),
        ({"n": True}, "n must be"),
        ({"budget_tokens": 0}, "budget_tokens"),
        ({"search": Sample(2)}, "Sample has 2 answers and BestOf n=16; n is given to BestOf"),
        ({"search": StochasticBeam(4)}, "StochasticBeam has 4 answers and BestOf n=16"),
        ({"search": Beam(width=4)}, "n_best must be a whole number in .1, 4., got 16"),
        ({"search": Beam}, "search must be Sample.. or a search such as Beam.width=8., got <class"),
        ({"search": Beam(), "n": 2, "budget_tokens": 9}, "budget_tokens=9 has no meaning with Beam, whose"),
        ({"search": None}, "search must be"),
        ({"verifier": len}, "wrap a function"),
        ({"verifier": "regex"}, "by name"),
    ],
)
def test_what_has_no_meaning_is_refused(settings, named):
    with pytest.raises(BadRequest, match=named):
        BestOf(**{"verifier": Regex("x"), **settings})


def test_a_search_that_ranks_gives_the_n_best():
    assert BestOf(n=4, verifier=Regex("x")).searched is None
    assert BestOf(Beam(width=8), n=4, verifier=Regex("x")).searched == Beam(width=8, n_best=4)
    assert BestOf(Beam(width=8, n_best=4), n=4, verifier=Regex("x")).searched == Beam(width=8, n_best=4)
    assert BestOf(StochasticBeam(4), n=4, verifier=Regex("x")).searched == StochasticBeam(4)
    greedy = DecodingParams(temperature=0)
    assert BestOf(Beam(width=8), n=4, verifier=Regex("x")).params(greedy) is greedy, (
        "beams differ all the same"
    )
