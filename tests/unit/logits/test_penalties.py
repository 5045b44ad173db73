"""Repetition, frequency, presence and bias, against the values of docs/decoding.md."""

from __future__ import annotations

import numpy as np
import pytest

from unspool.logits.bias import Bias
from unspool.logits.orders import stages_for
from unspool.logits.penalties import Frequency, Presence, Repetition
from unspool.logits.pipeline import process_by_stages, walk
from unspool.params import DecodingParams
from unspool.rules import Rules
from unspool.types import Row


def row(params, output, prompt=(), **rules):
    return Row(
        params, seed=1, branch=0, token_ids=(*prompt, *output), n_prompt=len(prompt), rules=Rules(**rules)
    )


def unchecked(**values):
    """Parameters beyond the range that users may give."""
    params = DecodingParams()
    for name, value in values.items():
        object.__setattr__(params, name, value)
    return params


def renormalised(z):
    weights = np.exp(z - z.max())
    return weights / weights.sum()


def probs_after(stages, p, row):
    z = np.log(np.array(p))
    for stage in stages:
        z = stage.apply(z[None], [row])[0]
    return renormalised(z)


FIFTHS = [0.2] * 5


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([0], [0, 0.25, 0.25, 0.25, 0.25]),
        ([0, 1, 2], [0, 0, 0, 0.5, 0.5]),
        ([0, 1, 2, 0, 0], [0, 0, 0, 0.5, 0.5]),
    ],
)
def test_repetition_takes_what_occurred_out_however_often_it_did(history, expected):
    params = DecodingParams(repetition_penalty=50)
    assert probs_after([Repetition()], FIFTHS, row(params, history)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([0], [1.1e-5, 0.249997, 0.249997, 0.249997, 0.249997]),
        ([0, 1, 2], [2.3e-5, 2.3e-5, 2.3e-5, 0.499966, 0.499966]),
        ([0, 1, 2, 0, 0], [0, 2.3e-5, 2.3e-5, 0.499977, 0.499977]),
    ],
)
def test_frequency_counts_and_presence_does_not(history, expected):
    params = unchecked(frequency_penalty=5.0, presence_penalty=5.0)
    found = probs_after([Frequency(), Presence()], FIFTHS, row(params, history))
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("z", "expected"), [(2.0, 0.5), (0.3, -0.35)])
def test_repetition_comes_before_what_is_subtracted(z, expected):
    params = DecodingParams(repetition_penalty=2, frequency_penalty=0.5)
    passed = walk(np.array([z, 0.0]), row(params, [0]))
    assert passed[-1].after[0] == pytest.approx(expected)
    assert passed[-1].after[0] != pytest.approx(0.75)


def test_an_order_may_subtract_first():
    params = DecodingParams(repetition_penalty=2, frequency_penalty=0.5, order=["frequency", "repetition"])
    assert walk(np.array([2.0, 0.0]), row(params, [0]))[-1].after[0] == pytest.approx(0.75)


def test_repetition_divides_positive_logits_and_multiplies_the_others():
    result = Repetition().apply(
        np.array([[3.0, -3.0, 0.0, -np.inf, 5.0]]),
        [row(DecodingParams(repetition_penalty=1.5), [0, 1, 2, 3])],
    )
    assert result[0].tolist() == [2.0, -4.5, 0.0, -np.inf, 5.0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("z", "theta"), [(3e38, 5e-324), (-3e38, 100.0), (1e-45, 1e-320)])
def test_repetition_stays_within_the_numbers(z, theta, dtype):
    result = Repetition().apply(
        np.array([[z, 0]], dtype=dtype), [row(DecodingParams(repetition_penalty=theta), [0, 1])]
    )
    assert np.isfinite(result).all()


PROMPT, OUTPUT = (0, 0, 1, 2), (2, 3, 3)


def penalised(**given):
    """Which tokens frequency=presence=1 and repetition change, from logits of 1."""
    params = DecodingParams(repetition_penalty=2, frequency_penalty=1, **given)
    its_row = row(params, OUTPUT, PROMPT, template_positions=frozenset({0, 2}))
    ones = np.ones((1, 5))
    repeated = Repetition().apply(ones, [its_row])[0]
    counted = 1 - Frequency().apply(ones, [its_row])[0]
    return np.flatnonzero(repeated != 1).tolist(), counted.tolist()


@pytest.mark.parametrize(
    ("given", "repeated", "counted"),
    [
        ({}, [0, 1, 2, 3], [0, 0, 1, 2, 0]),
        ({"penalty_scope": "output"}, [2, 3], [0, 0, 1, 2, 0]),
        ({"penalty_scope": "prompt"}, [0, 1, 2], [2, 1, 1, 0, 0]),
        ({"penalty_scope": "all"}, [0, 1, 2, 3], [2, 1, 2, 2, 0]),
        ({"penalty_window": 2}, [3], [0, 0, 0, 2, 0]),
        ({"penalty_window": 4}, [2, 3], [0, 0, 1, 2, 0]),
        ({"penalty_window": 2, "penalty_scope": "prompt"}, [1, 2], [0, 1, 1, 0, 0]),
        ({"penalty_window": 99, "penalty_scope": "all"}, [0, 1, 2, 3], [2, 1, 2, 2, 0]),
        ({"penalty_exclude_ids": [3, 0]}, [1, 2], [0, 0, 1, 0, 0]),
        ({"penalty_exclude_template": True}, [0, 2, 3], [0, 0, 1, 2, 0]),
        ({"penalty_exclude_template": True, "penalty_scope": "all"}, [0, 2, 3], [1, 0, 2, 2, 0]),
        ({"order": "llama.cpp"}, [0, 1, 2, 3], [2, 1, 2, 2, 0]),
        ({"order": "vllm"}, [0, 1, 2, 3], [0, 0, 1, 2, 0]),
    ],
)
def test_the_scope_the_window_and_the_exclusions_say_what_counts(given, repeated, counted):
    """transformers #36642 and #26902: a penalty hit the prompt, its markers and newlines, with no way out."""
    assert penalised(**given) == (repeated, counted)


@pytest.mark.parametrize("frequency_penalty", [-2, 2])
def test_a_negative_penalty_makes_what_occurred_likelier(frequency_penalty):
    found = probs_after(
        [Frequency()], FIFTHS, row(DecodingParams(frequency_penalty=frequency_penalty), [0, 1, 1])
    )
    assert (found[1] > found[0] > found[4]) == (frequency_penalty < 0)
    assert (found[1] < found[0] < found[4]) == (frequency_penalty > 0)


@pytest.mark.parametrize("temperature", [0, 1])
def test_penalties_and_bias_act_at_every_temperature(temperature):
    z = np.array([[5, 4.9, -60]], dtype=np.float32)
    for params, rules, expected in (
        (DecodingParams(repetition_penalty=9), {}, 1),
        (DecodingParams(frequency_penalty=2), {}, 1),
        (DecodingParams(presence_penalty=2), {}, 1),
        (DecodingParams(logit_bias={2: 100}), {"bias": ((2, 100.0),)}, 2),
    ):
        its_row = row(params.replace(temperature=temperature, top_k=1), [0], **rules)
        assert process_by_stages(z, [its_row])[0].chosen.token_id == expected


def test_bias_is_added_to_the_logits():
    params = DecodingParams(logit_bias={0: -100, 1: 0.5, 3: 7})
    result = Bias().apply(
        np.array([[1.0, 2.0, 3.0, -np.inf]]), [row(params, [], bias=((0, -100.0), (1, 0.5), (3, 7.0)))]
    )
    assert result[0].tolist() == [-99.0, 2.5, 3.0, -np.inf]


def test_a_bias_of_false_alone_is_no_bias():
    assert not Bias().is_active(DecodingParams(logit_bias={1: False}))
    assert [stage.name for stage in stages_for(DecodingParams(logit_bias={1: False}))] == ["banned_tokens"]
