"""How likely a model finds a text, also one that is longer than its context."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from unspool.engine.prompt import Prompt, checked_ids
from unspool.errors import BadRequest, ContextOverflow, named
from unspool.light_dataclass import dataclass
from unspool.params import DecodingParams
from unspool.types import Event, Request, TokenLogprobs

if TYPE_CHECKING:
    from unspool.models.tokenizer import Tokenizer

# The answer is not wanted: its one token is chosen from the logits of the last row and never fed.
_PARAMS = DecodingParams(temperature=0, max_tokens=1, prompt_logprobs=0)


@dataclass(frozen=True, slots=True)
class Score:
    """A text's tokens and their log-probabilities in nats, each given those before it."""

    token_ids: tuple[int, ...]  # the first is where the text starts from, and has no log-probability
    logprobs: tuple[TokenLogprobs, ...]  # of token_ids[1:]

    @property
    def sum_logprob(self) -> float:
        """The log-probability of the whole text after its first token."""
        return math.fsum(entry.token.logprob for entry in self.logprobs)

    @property
    def perplexity(self) -> float:
        """e to the mean of the negative log-probabilities: 1 is certain, V is a guess among V tokens."""
        return math.exp(-self.sum_logprob / len(self.logprobs))


@dataclass(frozen=True, slots=True)
class Windows:
    """A text cut into pieces that overlap.

    begin     what each window starts with: the model's begin token, or nothing
    starts    of the windows, in ids
    """

    begin: tuple[int, ...]
    ids: tuple[int, ...]  # without `begin`
    starts: range
    n_window: int  # ids a window, `begin` not counted

    def requests(self) -> list[Request]:
        """One for each window."""
        return [
            Request(self.begin + self.ids[start : start + self.n_window], _PARAMS) for start in self.starts
        ]

    def score(self, heard: Sequence[Sequence[Event]]) -> Score:
        """The whole text's score, from the events of each request: of every window what is new in it."""
        found: list[TokenLogprobs] = []
        for start, events in zip(self.starts, heard, strict=True):
            if (error := events[-1].error) is not None:
                raise error
            told = [entry for event in events for entry in event.prompt_logprobs]
            first_told = start + 1 - len(self.begin)  # the id that told[0] is about
            n_known = len(found) + 1 - len(self.begin)
            found += told[n_known - first_told :]
        return Score(self.begin + self.ids, tuple(found))


def windows_of(tokenizer: Tokenizer, text: Prompt, n_most: int, stride: int | None) -> Windows:
    """Windows of n_most tokens at most over text or token ids. Raises BadRequest for less than two tokens."""
    ids = tuple(tokenizer.encode(text) if isinstance(text, str) else checked_ids(text))
    if len(ids) < 2:
        raise BadRequest(
            f"a text of {len(ids)} tokens has none to score: the first has nothing before it; give more text",
            code="empty_prompt",
        )
    n_begin = int(ids[0] == tokenizer.bos_id)
    n_window = n_most - n_begin
    most = n_window - 1 + n_begin
    if most < 1:
        raise ContextOverflow(
            f"a context of {n_most + 1} tokens is too short to score a text in; raise "
            f"{named('context_length')}"
        )
    if stride is None:
        stride = max(n_window // 2, 1)
    elif isinstance(stride, bool) or not isinstance(stride, int) or not 1 <= stride <= most:
        raise BadRequest(
            f"stride must be a whole number in [1, {most}], got {stride!r}; leave it out for half a window",
            code="bad_stride",
        )
    begin, rest = ids[:n_begin], ids[n_begin:]
    n_more = max(len(rest) - n_window, 0)
    return Windows(begin, rest, range(0, -(-n_more // stride) * stride + 1, stride), n_window)
