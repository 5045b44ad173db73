"""What users of engines expect of truncation and of the order of stages, from their complaints."""

from __future__ import annotations

import numpy as np
import pytest
from scripted import distribution
from toy_engine import alone, make_engine, run

from unspool.logits import pipeline
from unspool.params import DecodingParams

P = [0.35, 0.25, 0.20, 0.05, 0.03, 0.03, 0.03, 0.03, 0.03]


@pytest.mark.parametrize("min_p", [0, 1e-6])
@pytest.mark.parametrize("process", [pipeline.process, pipeline.process_by_stages])
def test_top_k_and_top_p_together_have_one_answer_whatever_else_is_set(min_p, process):
    # Of the four that top-k leaves the shares are .412 .294 .235 .059: three of them reach .82.
    kept = distribution(P, top_k=4, top_p=0.82, min_p=min_p, process=process)
    assert list(kept) == [0, 1, 2]
    assert list(kept.values()) == pytest.approx([0.4375, 0.3125, 0.25], abs=1e-6)


def test_whether_temperature_comes_first_or_last_is_a_visible_setting():
    p = np.exp([3.0, 2.0, 1.0]) / np.exp([3.0, 2.0, 1.0]).sum()
    first = distribution(p, temperature=0.5, top_p=0.8)
    last = distribution(p, temperature=0.5, top_p=0.8, order=["top_p", "temperature"])
    assert (list(first), list(last)) == ([0], [0, 1])
    assert distribution(p, temperature=0.5, top_p=0.8, order="llama.cpp") == pytest.approx(last)
    assert distribution(p, temperature=0.5, top_p=0.8, order="vllm") == pytest.approx(first)


def test_top_k_keeps_exactly_k_though_more_are_equal_unless_an_engine_is_named_that_keeps_all():
    p = np.exp([1.0, 1.0, 1.0, 0.0])
    assert list(distribution(p, top_k=2)) == [0, 1]
    assert list(distribution(p, top_k=2, order="transformers")) == [0, 1, 2]


WISHES = {
    "dry": {"dry_multiplier": 2.0, "dry_allowed_length": 1},
    "top_n_sigma": {"top_n_sigma": 1.0},
    "mirostat": {"mirostat": 2, "mirostat_tau": 1.0},
    "mirostat 1": {"mirostat": 1, "mirostat_tau": 1.0},
    "dynamic temperature": {"dynatemp_min": 0.2, "dynatemp_max": 2.0},
    "quadratic smoothing": {"smoothing_factor": 0.5, "smoothing_curve": 1.5},
    "xtc": {"xtc_probability": 0.5, "xtc_threshold": 0.1},
    "typical": {"typical_p": 0.5},
    "min_p": {"min_p": 0.1},
    "adaptive": {"adaptive_target": 0.3},
    "order": {"order": ["top_k", "temperature"], "top_k": 3, "temperature": 1.5},
}


@pytest.mark.parametrize("wish", WISHES)
def test_methods_that_users_asked_for_work_in_a_batch_where_no_row_affects_another(wish):
    base = DecodingParams(seed=3, max_tokens=16, ignore_eos=True)
    requests = [((i % 7 + 1, 2, 1), base.replace(**WISHES[other])) for i, other in enumerate(WISHES)]
    together = run(make_engine(n_pages=128), requests)
    i = list(WISHES).index(wish)
    assert together[i].result == alone(*requests[i]).result
    assert together[i].result != alone(requests[i][0], base).result
