"""Classifier-free guidance: the value of the specification, its ends, and masks."""

from __future__ import annotations

import numpy as np
import pytest

from unspool.logits.distribution import probs
from unspool.logits.guidance import guide


def test_the_value_of_the_specification():
    guided = guide(np.log([0.7, 0.3]), np.log([0.5, 0.5]), 1.5)
    assert probs(guided) == pytest.approx([0.780905, 0.219095], abs=1e-6)


def test_scale_1_is_the_conditional_stream_to_the_bit_and_0_the_other():
    rng = np.random.default_rng(0)
    c, u = rng.normal(size=50), rng.normal(size=50)
    assert guide(c, u, 1) is c
    assert probs(guide(c, u, 0)) == pytest.approx(probs(u))


def test_adding_a_constant_to_a_stream_changes_nothing():
    rng = np.random.default_rng(1)
    c, u = rng.normal(size=50), rng.normal(size=50)
    assert probs(guide(c + 3, u - 5, 2.5)) == pytest.approx(probs(guide(c, u, 2.5)))


def test_what_either_stream_masks_stays_masked_and_no_nan_is_born():
    c, u = np.array([0.0, -np.inf, 1, -np.inf]), np.array([2.0, 1, -np.inf, -np.inf])
    guided = guide(c, u, 3)
    assert guided.tolist()[1:] == [-np.inf] * 3
    assert np.isfinite(guided[0])
    assert (guide(np.array([0.0, -np.inf]), np.array([-np.inf, 0.0]), 2) == -np.inf).all()
