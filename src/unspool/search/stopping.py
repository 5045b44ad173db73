"""When a beam search is over."""

from __future__ import annotations

from collections.abc import Sequence

from unspool.light_dataclass import dataclass
from unspool.search.hypotheses import Hypothesis
from unspool.search.length_norm import LengthNorm
from unspool.search.settings import EarlyStopping


@dataclass(frozen=True, slots=True)
class Rule:
    """What decides it, of one group of beams."""

    width: int
    norm: LengthNorm
    early_stopping: EarlyStopping


def is_over(
    rule: Rule,
    ended: Sequence[Hypothesis],
    live_logprobs: Sequence[float],
    n_tokens: int,
    n_most: int,
) -> bool:
    """Whether hypotheses of n_tokens tokens, the best first, are no longer worth following to n_most."""
    if not live_logprobs:
        return True
    if len(ended) < rule.width:
        return False
    if rule.early_stopping is True:
        return True
    norm, worst, n_most = rule.norm, ended[-1].score, max(n_most, n_tokens)
    if rule.early_stopping == "exact":
        return all(norm.best(logprob, n_tokens, n_most) <= worst for logprob in live_logprobs)
    is_longest = rule.early_stopping == "never" and norm.alpha > 0
    return live_logprobs[0] / norm(n_most if is_longest else n_tokens) <= worst
