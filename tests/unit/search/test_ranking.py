"""Continuations in order, from all candidates or from the first of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from searching import found
from toy_engine import ToyVocabulary

from unspool.logits import fused
from unspool.params import DecodingParams
from unspool.search.beam import Beam
from unspool.search.diverse_beam import DiverseBeam
from unspool.search.ranking import Choices, in_order
from unspool.types import Processed, Row

WIDE = ToyVocabulary([b"</s>", *(b"%d " % i for i in range(1, 400))], ends=(0,))


def rows_of(params, n_candidates, n=3):
    return [
        Row(params, 7, branch, (1, 2, 3), 2, wants_candidates=True, n_candidates=n_candidates)
        for branch in range(n)
    ]


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize(
    "asked", [{}, {"temperature": 0.6, "top_k": 30}, {"repetition_penalty": 2.0}, {"logit_bias": {5: 9.0}}]
)
def test_the_first_candidates_are_the_first_of_all_with_the_same_numbers(asked, rounded):
    z = np.random.default_rng(1).normal(size=(3, 1000)).astype(np.float32) * 4
    z = np.round(z) if rounded else z
    params = DecodingParams(**asked)
    for first, every in zip(
        fused.process(z, rows_of(params, 9)), fused.process(z, rows_of(params, None)), strict=True
    ):
        some, whole = first.candidates, every.candidates
        assert 9 <= some.token_ids.size < whole.token_ids.size
        assert some.log_total == whole.log_total
        order = np.lexsort((whole.token_ids, -whole.logits))[: some.token_ids.size]
        assert some.token_ids.tolist() == sorted(whole.token_ids[order].tolist())
        assert some.logits.tolist() == whole.logits[np.isin(whole.token_ids, some.token_ids)].tolist()
        asked_again = some.whole()
        assert asked_again.token_ids.tolist() == whole.token_ids.tolist()
        assert asked_again.logits.tolist() == whole.logits.tolist()
        assert asked_again.log_total == whole.log_total


@pytest.mark.parametrize("rounded", [False, True])
def test_the_order_is_the_same_from_the_first_candidates_as_from_all(rounded):
    z = np.random.default_rng(2).normal(size=(3, 300)).astype(np.float32)
    z = np.round(z * 2) if rounded else z
    orders = []
    for n_candidates in (5, None):
        rows = rows_of(DecodingParams(), n_candidates)
        choices = [
            Choices.of(row, p, -0.1 * row.branch) for row, p in zip(rows, fused.process(z, rows), strict=True)
        ]
        orders.append([(c.row.branch, c.token_id, c.logprob, c.rank_value) for c in in_order(choices, 4)])
    assert orders[0] == orders[1]
    assert len(orders[0]) == 900


def test_candidates_without_a_total_are_all_there_are():
    logits = np.log(np.array([0.5, 0.3, 0.2]))
    (row,) = rows_of(DecodingParams(), None, 1)
    processed = fused.process(logits[None].astype(np.float32), [row])[0]
    plain = Processed(processed.chosen, replace(processed.candidates, log_total=None))
    assert Choices.of(row, plain, -1.0).rank_values == pytest.approx(logits - 1)


@pytest.mark.parametrize(
    "search",
    [
        Beam(width=1),
        Beam(width=4, n_best=4),
        DiverseBeam(width=6, groups=3, strength=1.5, n_best=6),
        DiverseBeam(width=4, groups=4, strength=9, n_best=4),
    ],
)
def test_a_search_finds_the_same_when_it_is_shown_all_candidates(search):
    settings = {"vocabulary": WIDE, "n_pages": 128}
    shown_all = found(search, asked={"logprobs": 0, "stop": ["7 "]}, **settings)
    assert found(search, asked={"logprobs": None, "stop": ["7 "]}, **settings) == shown_all
