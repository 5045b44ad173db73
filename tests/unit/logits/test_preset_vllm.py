"""The preset "vllm" gives what vLLM gives, by a small implementation of its rules.

vLLM does not install beside the tests; its rules are those of its V1 sampler: bias, repetition over prompt
and answer, frequency and presence over the answer, temperature, min-p, then top-k and top-p over one
ascending sort, in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from preset_cases import array_of, random_logits, random_text
from stage_rows import wanting

from unspool.logits.pipeline import process_by_stages
from unspool.params import DecodingParams
from unspool.rules import Rules
from unspool.types import Row

N_ROWS = 1500
N_VOCAB = 24


def softmax(z):
    weights = np.exp(z - z.max())
    return weights / weights.sum()


def by_vllm(z, token_ids, n_prompt, p: dict[str, Any]):
    z = z.copy()
    for token_id, bias in p.get("logit_bias", []):
        z[token_id] += bias
    occurred = np.isin(np.arange(z.size), token_ids)
    theta = np.float32(p.get("repetition_penalty", 1))
    z = np.where(occurred, np.where(z > 0, z / theta, z * theta), z)
    counts = np.bincount(token_ids[n_prompt:], minlength=z.size)
    z -= np.float32(p.get("frequency_penalty", 0)) * counts
    z -= np.float32(p.get("presence_penalty", 0)) * (counts > 0)
    z = (z / np.float32(p.get("temperature", 1))).astype(np.float32)
    probs = softmax(z)
    z[probs < np.float32(p.get("min_p", 0)) * probs.max()] = -np.inf
    order = np.argsort(z, kind="stable")
    ascending = z[order]
    if "top_k" in p:
        ascending[ascending < ascending[max(0, z.size - p["top_k"])]] = -np.inf
    if "top_p" in p:
        gone = np.cumsum(softmax(ascending)) <= np.float32(1 - p["top_p"])
        gone[-1] = False
        ascending[gone] = -np.inf
    result = np.empty_like(z)
    result[order] = ascending
    return result


def random_params(rng) -> dict[str, Any]:
    values: dict[str, Any] = {
        "temperature": (0.3, 0.7, 1.5),
        "top_k": (1, 3, 8, 50),
        "top_p": (0.11, 0.53, 0.81, 0.957),
        "min_p": (0.021, 0.13, 0.47),
        "repetition_penalty": (0.8, 1.3, 2.0),
        "frequency_penalty": (-0.5, 0.7),
        "presence_penalty": (-0.5, 1.5),
    }
    chosen = {
        name: options[rng.integers(len(options))] for name, options in values.items() if rng.random() < 0.4
    }
    if rng.random() < 0.3:
        ids = sorted(rng.choice(N_VOCAB, size=2, replace=False).tolist())
        chosen["logit_bias"] = [(token_id, float(rng.integers(-8, 9)) / 2) for token_id in ids]
    return chosen


def by_order_vllm(z, token_ids, n_prompt, params):
    rules = Rules(bias=tuple(params.get("logit_bias", ())))
    row = Row(DecodingParams(order="vllm", **params), 1, 0, tuple(token_ids), n_prompt, rules)
    (result,) = process_by_stages(z[None], wanting([row]))
    left = np.full(z.size, -np.inf)
    left[result.candidates.token_ids] = result.candidates.logits
    return left


def test_order_vllm_leaves_what_its_sampler_leaves():
    rng = np.random.default_rng(11)
    n_ties = 0
    for _ in range(N_ROWS):
        params = random_params(rng)
        token_ids, n_prompt = random_text(rng, N_VOCAB)
        z = array_of(random_logits(rng, N_VOCAB))
        theirs = by_vllm(z, np.array(token_ids), n_prompt, params)
        ours = by_order_vllm(z, token_ids, n_prompt, params)
        p_theirs, p_ours = softmax(theirs.astype(np.float64)), softmax(ours)
        if not np.array_equal(theirs > -np.inf, ours > -np.inf):
            # Their sort leaves open which of equal logits top-p drops first; the masses agree all the same.
            n_ties += 1
            p_theirs, p_ours = np.sort(p_theirs), np.sort(p_ours)
            assert "top_p" in params
        np.testing.assert_allclose(p_ours, p_theirs, rtol=0, atol=1e-5, err_msg=str(params))
    assert n_ties < N_ROWS / 20


def test_top_k_2_of_three_equals_keeps_three_in_vllm_and_two_here():
    z = np.array([1, 1, 1, 0], dtype=np.float32)
    assert np.count_nonzero(by_order_vllm(z, [0], 1, {"top_k": 2}) > -np.inf) == 3


def test_one_answer_per_request_whatever_else_is_set():
    """p=[.35,.25,.20,.05,.03,...], k=4, top_p=.82: k, renormalised, then p, keeps 3, whatever min-p is."""
    p = np.array([0.35, 0.25, 0.20, 0.05, 0.03, 0.03, 0.03, 0.03, 0.03], dtype=np.float64)
    z = np.log(p).astype(np.float32)
    for more in ({}, {"min_p": 1e-6}, {"seed": 4}, {"logprobs": 2}):
        for order in ("unspool", "vllm", "llama.cpp", "transformers"):
            params = DecodingParams(order=order, top_k=4, top_p=0.82, **more)
            row = Row(params, 1, 0, (0,), 1)
            (result,) = process_by_stages(z[None], wanting([row]))
            assert result.candidates.token_ids.tolist() == [0, 1, 2]


def test_the_order_of_temperature_and_truncation_is_a_visible_setting():
    """Logits 3 2 1, top_p=.8, T=.5: first temperature keeps {0}, last keeps {0, 1}."""
    z = np.array([3, 2, 1], dtype=np.float32)
    kept = {}
    for order in ("unspool", "vllm", "transformers", "llama.cpp"):
        row = Row(DecodingParams(order=order, temperature=0.5, top_p=0.8), 1, 0, (0,), 1)
        (result,) = process_by_stages(z[None], wanting([row]))
        kept[order] = result.candidates.token_ids.tolist()
    assert kept == {"unspool": [0], "vllm": [0], "transformers": [0], "llama.cpp": [0, 1]}
