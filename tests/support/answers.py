"""Answers that no model wrote, and the events that would tell of them."""

from __future__ import annotations

from unspool.params import DecodingParams
from unspool.types import Completion, Event, TokenLogprob, TokenLogprobs, Usage


def usage(n_tokens: int) -> Usage:
    return Usage(
        prompt_tokens=1,
        cached_tokens=0,
        completion_tokens=n_tokens,
        queue_ms=0.0,
        ttft_ms=1.0,
        prefill_s=0.1,
        decode_s=0.1,
        decoded_tokens=max(n_tokens - 1, 0),
    )


def entry(logprob: float, logprob_final: float | None = None) -> TokenLogprobs:
    final = logprob if logprob_final is None else logprob_final
    return TokenLogprobs(TokenLogprob(1, "x", b"x", logprob, final), 1, (), ())


def answer(text: str, *logprobs: float, reason: str = "stop", n_tokens: int | None = None) -> Completion:
    """A completion with these log-probabilities, or with one token for each word and none."""
    n = len(logprobs) or (len(text.split()) if n_tokens is None else n_tokens)
    told = tuple(map(entry, logprobs))
    return Completion(text, (1,) * n, reason, None, 5, usage(n), DecodingParams(), told)


class Told:
    """A stream of events. `scripts` has the pieces of each branch, a token each; all take turns."""

    def __init__(self, *scripts: list[str], error: Exception | None = None) -> None:
        self.scripts, self.error = scripts, error
        self.is_closed = False
        self.n_read = 0

    def __iter__(self):
        for turn in range(max(map(len, self.scripts))):
            for branch, pieces in enumerate(self.scripts):
                if turn < len(pieces):
                    self.n_read += 1
                    yield self._event(branch, pieces, turn)
        if self.error is not None:
            raise self.error

    def _event(self, branch: int, pieces: list[str], turn: int) -> Event:
        is_last = turn == len(pieces) - 1
        return Event(
            0,
            pieces[turn],
            (turn,),
            branch=branch,
            finish_reason="stop" if is_last else None,
            seed=7 if is_last else None,
            usage=usage(len(pieces)) if is_last else None,
            logprobs=(entry(-1.0 - branch),),
        )

    def close(self) -> None:
        self.is_closed = True
