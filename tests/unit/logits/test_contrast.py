"""Contrastive decoding: a value by hand, its ends, the plausible tokens, and masks."""

from __future__ import annotations

import numpy as np
import pytest

from unspool.logits.contrast import contrast
from unspool.logits.distribution import log_probs, probs

INF = np.inf


def test_logits_are_those_worked_out_by_hand():
    """0.4 0.4 0.2 against 0.5 0.25 0.25 with beta 1: p squared over q is 0.32 0.64 0.16."""
    z = contrast(np.log([0.4, 0.4, 0.2]), np.log([0.5, 0.25, 0.25]), 0.1, 1.0)
    assert probs(z) == pytest.approx([0.32 / 1.12, 0.64 / 1.12, 0.16 / 1.12])


def test_what_the_expert_finds_implausible_is_out_whatever_the_amateur_says():
    e, a = np.log([0.6, 0.31, 0.29, 0.05]), np.log([0.5, 0.3, 0.2, 1e-9])
    assert (contrast(e, a, 0.5, 0.5) > -INF).tolist() == [True, True, False, False]
    assert (contrast(e, a, 0.0, 0.5) > -INF).all()
    assert (contrast(e, a, 1.0, 0.5) > -INF).tolist() == [True, False, False, False]


def test_beta_0_and_alpha_0_are_the_experts_own_distribution():
    rng = np.random.default_rng(0)
    e, a = rng.normal(size=50), rng.normal(size=50)
    assert contrast(e, a, 0, 0) == pytest.approx(log_probs(e))


def test_a_constant_on_either_changes_nothing():
    rng = np.random.default_rng(1)
    e, a = rng.normal(size=50), rng.normal(size=50)
    assert contrast(e + 3, a - 5, 0.1, 0.5) == pytest.approx(contrast(e, a, 0.1, 0.5))


def test_plausible_is_measured_by_what_the_masks_leave():
    e, a = np.log([0.98, 0.015, 0.004, 0.001]), np.log([0.4, 0.3, 0.2, 0.1])
    assert (contrast(e, a, 0.1, 0.5) > -INF).tolist() == [True, False, False, False]
    allowed = np.array([-INF, 0, 0, 0])
    assert (contrast(e, a, 0.1, 0.5, allowed) > -INF).tolist() == [True, True, True, False]


def test_what_either_masks_stays_masked_and_no_nan_is_born():
    e, a = np.array([0.0, -INF, 1, -INF]), np.array([2.0, 1, -INF, -INF])
    z = contrast(e, a, 0.1, 0.5)
    assert z.tolist()[1:] == [-INF] * 3
    assert np.isfinite(z[0])
    assert (contrast(e, np.full(4, -INF), 0.1, 0.5) == -INF).all()
    assert np.isfinite(contrast(e, a, 0.1, 0.5, np.full(4, -INF))[0])
