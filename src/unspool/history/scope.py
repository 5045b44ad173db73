"""Which part of the text the penalties look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from unspool.params import DecodingParams


@dataclass(frozen=True, slots=True)
class Scope:
    """The prompt, the answer or both, and of that the last `window` positions; None is all of it."""

    prompt: bool
    output: bool
    window: int | None = None

    def span(self, n_prompt: int, n_tokens: int) -> tuple[int, int]:
        """Positions [start, stop) of a text of n_tokens, of which the first n_prompt are the prompt."""
        start = 0 if self.prompt else n_prompt
        stop = n_tokens if self.output else n_prompt
        if self.window is not None:
            start = max(start, stop - self.window)
        return start, stop


# What "default" means: for repetition, and for frequency and presence. An engine's own order takes that
# engine's scopes.
_BOTH: Final = Scope(prompt=True, output=True)
_OUTPUT: Final = Scope(prompt=False, output=True)
_DEFAULTS: Final[Mapping[str, tuple[Scope, Scope]]] = {
    "unspool": (_BOTH, _OUTPUT),
    "vllm": (_BOTH, _OUTPUT),
    "llama.cpp": (_BOTH, _BOTH),
    "transformers": (_BOTH, _OUTPUT),
}
_NAMED: Final[Mapping[str, Scope]] = {
    "all": _BOTH,
    "prompt": Scope(prompt=True, output=False),
    "output": _OUTPUT,
}


def scopes_of(params: DecodingParams) -> tuple[Scope, Scope]:
    """What repetition looks at, and what frequency and presence look at."""
    if params.penalty_scope == "default":
        preset = params.order if isinstance(params.order, str) else "unspool"
        repetition, additive = _DEFAULTS[preset]
    else:
        repetition = additive = _NAMED[params.penalty_scope]
    window = params.penalty_window
    if window is None:
        return repetition, additive
    return (
        Scope(repetition.prompt, repetition.output, window),
        Scope(additive.prompt, additive.output, window),
    )
