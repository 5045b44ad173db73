"""Is what was drawn what was meant? Pearson's test, with its exact tail.

A test that asserts `odds(...) > FALSE_ALARM` fails one time in a million when the draws are right. The seeds
are fixed, so it either fails always or never; the odds are those of having picked an unlucky seed.
"""

from __future__ import annotations

import math

import numpy as np

FALSE_ALARM = 1e-6


def odds(counts, expected_probs):
    """Probability of counts (k,) at least so far from expected_probs (k,), were they the distribution.

    What has probability 0 must not occur at all; if it does, the odds are 0.
    """
    counts, p = np.ravel(counts), np.ravel(expected_probs)
    if counts[p == 0].any():
        return 0.0
    expected = counts.sum() * p[p > 0]
    assert expected.min() > 50, "too few draws for the distribution of the statistic to be chi-square"
    statistic = float(((counts[p > 0] - expected) ** 2 / expected).sum())
    return tail(statistic, expected.size - 1)


def tail(x, n_free):
    """P(X > x) of a chi-square variable with n_free degrees of freedom, in closed form."""
    h = x / 2
    if n_free == 0:
        return 1.0 if x == 0 else 0.0
    if n_free % 2 == 0:
        return math.exp(-h) * sum(h**i / math.factorial(i) for i in range(n_free // 2))
    halves = sum(h ** (i - 0.5) / math.gamma(i + 0.5) for i in range(1, (n_free + 1) // 2))
    return math.erfc(math.sqrt(h)) + math.exp(-h) * halves
