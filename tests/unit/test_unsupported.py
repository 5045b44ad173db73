"""Methods that are not here are refused by name, with the reason and what there is instead."""

from __future__ import annotations

import pytest

from unspool.errors import BadRequest
from unspool.params import DecodingParams
from unspool.search.named import search_of


@pytest.mark.parametrize(("name", "value"), [("penalty_alpha", 0.6), ("dola_layers", "high")])
def test_a_parameter_of_a_method_that_is_not_there_is_refused_with_the_reason(name, value):
    with pytest.raises(
        BadRequest, match=f"^{name}: .* is not supported: needs hidden states; contrast_beta"
    ) as refused:
        DecodingParams(**{name: value})
    assert refused.value.code == "not_supported"
    with pytest.raises(BadRequest, match="needs hidden states"):
        DecodingParams.from_dict({name: value})


@pytest.mark.parametrize("name", ["contrastive", "contrastive-search", "dola", "dola:layers=high"])
def test_a_search_that_is_not_there_is_refused_with_the_reason(name):
    with pytest.raises(BadRequest, match="is not supported: needs hidden states; contrast_beta") as refused:
        search_of(name, None)
    assert refused.value.code == "not_supported"
