"""The pipeline: its order, its purity, and errors that are one row's alone."""

from __future__ import annotations

import numpy as np
import pytest
from stage_rows import kept_ids, row, wanting

from unspool.errors import NoCandidate
from unspool.logits.orders import stages_for
from unspool.logits.pipeline import process_by_stages, walk
from unspool.params import DecodingParams

Z321 = np.array([[3, 2, 1]], dtype=np.float32)


def survivors(z, asking):
    (processed,) = process_by_stages(z, wanting([asking]))
    return processed.candidates.token_ids.tolist()


def test_temperature_stands_before_truncation_unless_the_order_says_otherwise():
    params = {"temperature": 0.5, "top_p": 0.8}
    assert [stage.name for stage in stages_for(DecodingParams(**params))] == ["temperature", "top_p"]
    assert survivors(Z321, row(**params)) == [0]
    assert survivors(Z321, row(**params, order=["top_p", "temperature"])) == [0, 1]


def test_default_parameters_run_no_stage():
    assert not stages_for(DecodingParams())


def test_the_models_logits_are_never_written_to():
    z = np.random.default_rng(0).normal(size=(3, 64)).astype(np.float32)
    before = z.tobytes()
    process_by_stages(z, [row(temperature=0.5, top_k=3), row(), row(temperature=0)])
    assert z.tobytes() == before


@pytest.mark.parametrize("fault", [np.nan, np.inf])
@pytest.mark.parametrize(
    "params", [{}, {"top_k": 1}, {"temperature": 0}, {"mirostat": 2}, {"typical_p": 0.5}]
)
def test_a_logit_that_is_no_number_is_an_error_also_where_it_would_be_cut(params, fault):
    z = np.array([[1, 5, fault, 0], [1, 5, 2, 0]], dtype=np.float32)
    error, sound = process_by_stages(z, [row(**params), row(**params)])
    assert isinstance(error, NoCandidate)
    assert "at position 3" in str(error)
    assert sound.chosen.token_id < 4


def test_only_a_stage_that_learns_observes_anything():
    for params, observes in (
        ({}, False),
        ({"top_k": 2}, False),
        ({"mirostat": 1}, True),
        ({"mirostat": 2}, True),
    ):
        (processed,) = process_by_stages(Z321, [row(**params)])
        assert (processed.chosen.observed is not None) == observes
    (processed,) = process_by_stages(Z321, [row(adaptive_target=0.5)])
    assert 0 < processed.chosen.observed < 1


def test_a_walk_tells_the_logits_around_every_stage():
    asking = row(temperature=0.5, top_k=2, top_p=0.8)
    first, second, third = walk(Z321[0].astype(np.float64), asking)
    assert [one.stage.name for one in (first, second, third)] == ["temperature", "top_k", "top_p"]
    assert first.before.tolist() == [3, 2, 1]
    assert first.after.tolist() == second.before.tolist() == [6, 4, 2]
    assert (kept_ids(second.after), kept_ids(third.after)) == ([0, 1], [0])
