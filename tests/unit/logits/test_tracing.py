"""The trace of one row: what each stage did, on tiny rows worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unspool.logits.pipeline import process
from unspool.logits.tracing import N_TOP, entropy_bits, trace_of
from unspool.params import DecodingParams
from unspool.types import Row


def traced(probs, seed=1, **params):
    params = DecodingParams(trace=True, **params)
    z = np.log(np.array(probs, dtype="f8")).astype("f4")
    row = Row(params, seed, 0, (0, 1), 2, wants_candidates=True)
    [processed] = process(z[None], [row])
    return trace_of(
        z, row, processed.candidates, processed.chosen.token_id, lambda i: (f"t{i}", b"")
    ), processed


def test_each_stage_tells_survivors_mass_and_entropy_before_and_after():
    trace, processed = traced([0.1, 0.2, 0.3, 0.4], temperature=0.5, top_k=3, top_p=0.7)
    assert [stage.stage for stage in trace.stages] == ["temperature", "top_k", "top_p"]
    heat, k, p = trace.stages
    squares = np.array([0.01, 0.04, 0.09, 0.16]) / 0.3
    assert (heat.n_before, heat.n_after, heat.n_removed, heat.removed_mass) == (4, 4, 0, 0.0)
    assert heat.temperature == pytest.approx(0.5)
    assert heat.entropy_before_bits == pytest.approx(entropy_bits(np.array([0.1, 0.2, 0.3, 0.4])), abs=1e-6)
    assert heat.entropy_after_bits == pytest.approx(entropy_bits(squares), abs=1e-6)
    assert (k.n_before, k.n_after) == (4, 3)
    assert k.removed_mass == pytest.approx(squares[0], abs=1e-6)
    assert [(r.token_id, r.text) for r in k.removed] == [(0, "t0")]
    assert k.removed[0].prob == k.removed_mass
    assert (k.temperature, p.temperature) == (None, None)
    assert (p.n_before, p.n_after) == (3, 2)
    assert p.removed_mass == pytest.approx(0.04 / 0.29, abs=1e-6)
    assert (trace.n_candidates, trace.n_survivors, trace.position) == (4, 2, 2)
    assert trace.matches
    assert processed.chosen.token_id == trace.chosen.token_id


def test_every_removed_id_is_known_with_the_stage_that_took_it():
    trace, _ = traced([0.1, 0.2, 0.3, 0.4], temperature=0.5, top_k=3, top_p=0.7)
    assert [trace.removed_ids(i) for i in range(3)] == [[], [0], [1]]
    assert trace.survivor_ids() == [2, 3]
    assert [trace.removed_by(i) for i in range(4)] == ["top_k", "top_p", None, None]


def test_a_candidate_is_followed_from_the_raw_to_the_final_probability():
    trace, _ = traced([0.1, 0.2, 0.3, 0.4], top_k=2)
    paths = {path.token_id: path for path in trace.candidates}
    assert [path.token_id for path in trace.candidates] == [3, 2, 1, 0]
    assert paths[3].probs == pytest.approx((0.4, 4 / 7), abs=1e-6)
    assert paths[0].probs == pytest.approx((0.1, 0), abs=1e-6)
    assert (paths[3].prob, paths[3].prob_final) == paths[3].probs
    assert sum(path.prob_final for path in trace.candidates) == pytest.approx(1)


def test_what_a_stage_moved_is_told_by_how_far_it_moved():
    [heat] = traced([0.1, 0.2, 0.3, 0.4], temperature=0.5)[0].stages
    assert heat.moved[0].token_id == 3
    assert heat.moved[0].prob_before == pytest.approx(0.4, abs=1e-6)
    assert heat.moved[0].prob_after == pytest.approx(0.16 / 0.3, abs=1e-6)
    assert heat.moved[0].logit_change == pytest.approx(math.log(0.4), abs=1e-6)
    [cut] = traced([0.1, 0.2, 0.3, 0.4], top_k=2)[0].stages
    assert cut.moved == (), "a cut changes no logit of those that stay"


def test_without_a_stage_the_model_speaks_for_itself():
    trace, _ = traced([0.5, 0.25, 0.25])
    assert trace.stages == ()
    assert trace.chosen.prob == trace.chosen.prob_final
    assert (trace.entropy_bits, trace.entropy_final_bits) == (pytest.approx(1.5), pytest.approx(1.5))
    assert trace.matches


def test_a_long_vocabulary_shows_the_likeliest_at_first_and_at_last_and_the_chosen_one():
    probs = np.random.default_rng(3).dirichlet(np.ones(300))
    trace, processed = traced(probs, temperature=1.5)
    assert N_TOP <= len(trace.candidates) <= 2 * N_TOP + 1
    assert [c.token_id for c in trace.candidates[:N_TOP]] == np.argsort(-probs)[:N_TOP].tolist()
    assert processed.chosen.token_id in {c.token_id for c in trace.candidates}
    assert len(trace.fates) == 300


def test_candidates_the_walk_does_not_end_with_are_pointed_out():
    trace, processed = traced([0.1, 0.2, 0.3, 0.4], top_k=2)
    z = np.log(np.array([0.1, 0.2, 0.3, 0.4])).astype("f4")
    row = Row(DecodingParams(top_k=3), 1, 0, (0, 1), 2)
    other = trace_of(z, row, processed.candidates, processed.chosen.token_id, lambda i: ("", b""))
    assert (trace.matches, other.matches) == (True, False)


def test_a_logit_that_the_model_ruled_out_is_no_stage_s_doing():
    z = np.array([0, -np.inf, 1], dtype="f4")
    row = Row(DecodingParams(top_k=1), 1, 0, (0,), 1, wants_candidates=True)
    [processed] = process(z[None], [row])
    trace = trace_of(z, row, processed.candidates, 2, lambda i: ("", b""))
    assert (trace.n_candidates, trace.removed_by(1), trace.removed_ids(0)) == (2, None, [0])
    assert trace.stages[0].n_before == 2


def test_entropy_of_certainty_is_a_plain_zero():
    assert str(entropy_bits(np.array([1.0, 0.0]))) == "0.0"
