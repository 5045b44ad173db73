"""Which positions of the text the penalties look at."""

from __future__ import annotations

from unspool.conventions import penalty_window_of, scope_of
from unspool.light_dataclass import dataclass
from unspool.params import DecodingParams


@dataclass(frozen=True, slots=True)
class Scope:
    """The prompt, the answer or both, and of that the last `window` positions; None is all of it."""

    prompt: bool
    output: bool
    window: int | None = None

    @classmethod
    def of(cls, penalty: str, params: DecodingParams) -> Scope:
        """What "repetition", "frequency" or "presence" looks at."""
        scope = scope_of(penalty, params)
        return cls(scope != "output", scope != "prompt", penalty_window_of(params))

    def span(self, n_prompt: int, n_tokens: int) -> tuple[int, int]:
        """Positions [start, stop) of a text of n_tokens, of which the first n_prompt are the prompt."""
        start = 0 if self.prompt else n_prompt
        stop = n_tokens if self.output else n_prompt
        if self.window is not None:
            start = max(start, stop - self.window)
        return start, stop
