"""How often one of k answers passes, and how sure that is (Chen et al. 2021, arXiv 2107.03374)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import NormalDist

from unspool.errors import BadRequest
from unspool.light_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate of a proportion, with bounds that hold it with a probability of `confidence`."""

    estimate: float
    low: float
    high: float
    confidence: float


def pass_at_k(n: int, n_correct: int, k: int) -> float:
    """The probability that one of k answers drawn from n passes, of which n_correct do.

    1 - C(n - c, k) / C(n, k) as a product, 1 - prod (1 - k / i) for i from n - c + 1 to n: no number in it is
    large. Unbiased, unlike 1 - (1 - c/n)^k.
    """
    if not (0 <= n_correct <= n and 1 <= k <= n):
        raise BadRequest(
            f"pass@k needs 0 <= correct <= n and 1 <= k <= n, got n={n}, correct={n_correct}, k={k}; "
            "draw more answers, or lower k",
            code="bad_pass_at_k",
        )
    if n - n_correct < k:
        return 1.0
    return 1.0 - math.prod(1.0 - k / i for i in range(n - n_correct + 1, n + 1))


def mean_pass_at_k(counts: Iterable[tuple[int, int]], k: int) -> float:
    """pass@k of a set of problems, each with (answers, correct ones)."""
    values = [pass_at_k(n, n_correct, k) for n, n_correct in counts]
    if not values:
        raise BadRequest("pass@k of no problems has no value; give at least one", code="bad_pass_at_k")
    return math.fsum(values) / len(values)


def wilson(n_correct: int, n: int, *, confidence: float = 0.95) -> Interval:
    """The share of n independent tries that passed, with its score interval (Wilson 1927).

    It needs no resampling, stays in [0, 1] and is right for few tries and for shares near 0 and 1 too. For
    pass@1 with one answer to a problem n is the number of problems; several answers to one problem are not
    independent tries.
    """
    if not (n >= 1 and 0 <= n_correct <= n and 0 < confidence < 1):
        raise BadRequest(
            f"an interval needs 0 <= correct <= n, n >= 1 and a confidence in (0, 1), got "
            f"correct={n_correct}, n={n}, confidence={confidence}",
            code="bad_interval",
        )
    z = NormalDist().inv_cdf((1.0 + confidence) / 2.0)
    share, weight = n_correct / n, z * z / n
    middle = (share + weight / 2.0) / (1.0 + weight)
    half = z * math.sqrt(share * (1.0 - share) / n + weight / (4.0 * n)) / (1.0 + weight)
    low = 0.0 if n_correct == 0 else max(middle - half, 0.0)
    high = 1.0 if n_correct == n else min(middle + half, 1.0)
    return Interval(share, low, high, confidence)
