"""Length norms: what the log-probability of a hypothesis is divided by, so that short ones do not always win.

L counts generated tokens, the one that ends the text included, and never the prompt.
"""

from __future__ import annotations

import math
from typing import Final, Literal

from unspool.errors import BadRequest
from unspool.light_dataclass import dataclass

Kind = Literal["gnmt", "power", "none"]
_KINDS: Final = ("gnmt", "power", "none")


@dataclass(frozen=True, slots=True)
class LengthNorm:
    """gnmt: ((5 + L) / 6)^alpha (Wu et al. 2016, arXiv 1609.08144); power: L^alpha; none: 1."""

    kind: Kind
    alpha: float

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise BadRequest(
                f"length_norm must be one of {', '.join(map(repr, _KINDS))}, got {self.kind!r}",
                code="bad_length_norm",
            )
        if (
            isinstance(self.alpha, bool)
            or not isinstance(self.alpha, (int, float))
            or not abs(self.alpha) <= 100
        ):
            raise BadRequest(
                f"alpha must be a number in [-100, 100], got {self.alpha!r}; 0 leaves lengths alone",
                code="bad_alpha",
            )

    def __call__(self, n_tokens: int) -> float:
        if self.kind == "none":
            return 1.0
        length = (5 + n_tokens) / 6 if self.kind == "gnmt" else n_tokens
        return math.pow(length, self.alpha)

    def best(self, logprob: float, n_now: int, n_most: int) -> float:
        """The best score that a hypothesis of n_now tokens can still have, with n_most tokens at most.

        More tokens never raise a log-probability, and the norm is monotonic, so it is at one of the ends.
        """
        soonest = min(n_now + 1, n_most)
        return max(logprob / self(soonest), logprob / self(n_most))
