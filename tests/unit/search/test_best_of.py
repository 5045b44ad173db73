"""What best-of-n is asked for, as data."""

from __future__ import annotations

import pytest

from unspool.errors import BadRequest, ParameterConflict
from unspool.params import DecodingParams
from unspool.search.best_of import BestOf
from unspool.search.sample import Sample
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
        ({"search": Sample(2)}, "n is given to BestOf"),
        ({"search": None}, "search must be"),
        ({"verifier": len}, "wrap a function"),
        ({"verifier": "regex"}, "by name"),
    ],
)
def test_what_has_no_meaning_is_refused(settings, named):
    with pytest.raises(BadRequest, match=named):
        BestOf(**{"verifier": Regex("x"), **settings})
