"""Numbers that run along a text: mirostat's mu and adaptive-p's average."""

from __future__ import annotations

from unspool.params import DecodingParams


class Running:
    """The value after each accepted token; the last is the one in force.

    mirostat   mu starts at 2 tau; after a token of surprise S it is mu - eta (S - tau)
    adaptive   the average starts at the target; after a token of probability p, decay * average +
               (1 - decay) * p
    """

    def __init__(self, params: DecodingParams, values: list[float]) -> None:
        self._params = params
        self._values = values

    @classmethod
    def of(cls, params: DecodingParams) -> Running | None:
        """None when no parameter asks for one."""
        start = starting_value(params)
        return None if start is None else cls(params, [start])

    @property
    def value(self) -> float:
        return self._values[-1]

    def accept(self, observed: float | None) -> None:
        # A token that nobody observed, as a prompt's, leaves the value.
        value, params = self._values[-1], self._params
        if observed is not None and params.mirostat:
            value -= params.mirostat_eta * (observed - params.mirostat_tau)
        elif observed is not None:
            value = params.adaptive_decay * value + (1 - params.adaptive_decay) * observed
        self._values.append(value)

    def rollback(self, n: int) -> None:
        assert 0 <= n < len(self._values), f"cannot undo {n} of {len(self._values) - 1} tokens"
        del self._values[len(self._values) - n :]

    def fork(self) -> Running:
        return Running(self._params, self._values.copy())


def learns(params: DecodingParams) -> bool:
    """Whether a number runs along the text, and each token has to be observed."""
    return starting_value(params) is not None


def starting_value(params: DecodingParams) -> float | None:
    """The value before the first token; None when no parameter asks for one."""
    if params.is_greedy:
        return None
    return 2 * params.mirostat_tau if params.mirostat else params.adaptive_target
