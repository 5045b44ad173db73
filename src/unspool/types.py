"""Values that cross the layers of the engine. All frozen: only `engine.commit` changes state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from unspool.errors import UnspoolError
from unspool.history import History
from unspool.light_dataclass import dataclass
from unspool.params import DecodingParams
from unspool.rules import NO_RULES, Rules

if TYPE_CHECKING:
    from unspool.search_tree import SearchTree
    from unspool.trace import TokenTrace

FinishReason = Literal["stop", "length", "deadline", "loop", "cancelled", "error"]

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
Ids = npt.NDArray[np.intp]

Salt = str | None  # whose text it is, where texts of different owners must not share pages
Spell: TypeAlias = Callable[[int], tuple[str, bytes]]  # of a token id: text to show, bytes that it adds


@dataclass(frozen=True, slots=True)
class Plan:
    """One forward pass over B sequences, ragged: R rows (tokens) in all, P page-table entries in all.

    Sequence b owns rows [seq_start[b], seq_start[b+1]) and page-table entries
    [page_start[b], page_start[b+1]). Its row i has absolute position n_past[b] + i; positions
    [0, n_past[b]) are already in the cache. Position t lives in page
    page_table[page_start[b] + t // page_size], slot t % page_size; the table covers every position
    up to the last row of the sequence. A runner writes K and V of all R rows, and returns logits
    for `logits_rows` only. No page may be written by two sequences of one plan.
    """

    token_ids: I32  # (R,)
    seq_start: I32  # (B + 1,), seq_start[0] = 0, seq_start[B] = R
    n_past: I32  # (B,)
    page_table: I32  # (P,) page ids
    page_start: I32  # (B + 1,)
    logits_rows: I32  # (W,) indices into the R rows, ascending


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked."""

    prompt_ids: tuple[int, ...]
    params: DecodingParams
    template_positions: frozenset[int] = frozenset()  # of the prompt, written by a chat template; when asked
    n: int = 1  # answers; each has a branch of its own and its own random numbers
    priority: int = 0  # higher first
    salt: Salt = None  # requests with different salts share no pages
    use_cache: bool = True  # False: take no pages from the prefix tree and leave none there
    first_branch: int = 0  # the answers are branches [first_branch, first_branch + n)
    search: Any = None  # one of unspool.search, which then says how many answers; None samples n


def _never_ends(token_id: int) -> bool:
    return False


def _keeps_all(token_id: int) -> int | None:
    return None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the logits matrix: whose next token it is about."""

    params: DecodingParams
    seed: int
    branch: int  # which hypothesis of its request
    token_ids: Sequence[int]  # prompt and output so far; read only, valid until the step is committed
    n_prompt: int  # token_ids[:n_prompt] is the prompt
    rules: Rules = NO_RULES  # the parameters in terms of this model's token ids
    history: History | None = None  # what follows token_ids; None: stages work it out from the start
    wants_candidates: bool = False  # whether all survivors are looked at, and not only the chosen token
    n_new_max: int = 0  # tokens that the text may have after the prompt; 0: not said
    n_candidates: int | None = None  # of those, how many of the first in order are enough; None: all
    # How many tokens of the answer stay whole if a token is chosen now and what it ends is cut; None: all.
    n_whole_with: Callable[[int], int | None] = _keeps_all
    ends_with: Callable[[int], bool] = _never_ends  # whether a token would end the text here, for any reason

    @property
    def position(self) -> int:
        """Absolute position of the token that this row's logits are about."""
        return len(self.token_ids)

    @property
    def is_last(self) -> bool:
        """Whether no token may follow the one that is chosen now, so that each would end the text."""
        return 0 < self.n_new_max <= self.position - self.n_prompt + 1


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token and its log-probabilities at one position."""

    token_id: int
    text: str  # for display: control tokens by name, bytes that are no character as \xe4
    token_bytes: bytes  # what the token adds to the text
    logprob: float  # the model's own, before anything
    logprob_final: float | None  # among the survivors of the last stage, -inf for others; None in a prompt


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """What a position's log-probabilities say about the token that stands there."""

    token: TokenLogprob
    rank: int  # by logprob; 1 is the likeliest, and equals share the better rank
    top: tuple[TokenLogprob, ...]  # the k likeliest by logprob, likeliest first
    top_final: tuple[TokenLogprob, ...]  # the k likeliest by logprob_final; none in a prompt


@dataclass(frozen=True, slots=True)
class Chosen:
    """A token that was chosen for a row, and what is known about the choice."""

    token_id: int
    # What the branch's running state learns (History.accept): by the pipeline that drew the token, or, of one
    # that a search chose itself, by engine/annotate.py.
    observed: float | None = None
    logprobs: TokenLogprobs | None = None  # for who asked
    trace: TokenTrace | None = None  # for who asked


@dataclass(frozen=True, slots=True)
class Candidates:
    """Who survived the pipeline, ids ascending; -inf appears nowhere.

    These are all of them, or the first in order (the largest logit, then the lowest id) and `whole` gives
    all. Softmax over all is the distribution that is drawn from.
    """

    token_ids: Ids  # (n,)
    logits: F64  # (n,) after every stage
    log_total: float | None = None  # ln of the sum of e^(logit - largest) over all; None: not worked out
    whole: Callable[[], Candidates] | None = None


@dataclass(frozen=True, slots=True)
class Processed:
    """What the pipeline made of one row."""

    chosen: Chosen
    candidates: Candidates | None = None  # for who asked


@dataclass(frozen=True, slots=True)
class Extend:
    """The branch grows by these tokens."""

    branch: int
    tokens: tuple[Chosen, ...]


@dataclass(frozen=True, slots=True)
class Fork:
    """A new branch `child` starts as a copy of `branch`."""

    branch: int
    child: int


@dataclass(frozen=True, slots=True)
class Drop:
    """The branch is given up; nothing of it is reported."""

    branch: int


@dataclass(frozen=True, slots=True)
class Finish:
    """The branch is complete as it stands."""

    branch: int
    reason: FinishReason


@dataclass(frozen=True, slots=True)
class Complete:
    """`child` is `branch` and a token that ends its text: kept without pages, to answer or to drop."""

    branch: int
    child: int
    token: Chosen


@dataclass(frozen=True, slots=True)
class Answer:
    """A kept branch, or a live one as it stands, is the next best answer; the search is over."""

    branch: int
    score: float


Move = Extend | Fork | Drop | Finish | Complete | Answer


@dataclass(frozen=True, slots=True)
class InterToken:
    """Times from each token of an answer to the next; all 0 where there are fewer than two tokens."""

    n: int = 0  # times, one fewer than tokens chosen
    mean_ms: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    max_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Usage:
    """What a request cost. Times are wall clock, shared with whatever ran in the same steps."""

    prompt_tokens: int
    cached_tokens: int  # of the prompt's, those that were found in the prefix tree and not read again
    completion_tokens: int  # tokens in the result, cut where the text is cut
    queue_ms: float  # from the request's arrival to its first step
    ttft_ms: float  # from the request's arrival to its first token
    prefill_s: float  # from the first step of the prompt to the first token
    decode_s: float  # from the first token to the last
    decoded_tokens: int  # tokens chosen after the first, kept or not; decode_s paid for them
    n_preempted: int = 0  # times that the request was put back for want of pages
    reread_tokens: int = 0  # read once more after that, of all the request's answers
    inter_token: InterToken = InterToken()

    @property
    def prefill_tokens_per_s(self) -> float:
        """Of the tokens that were read."""
        return (self.prompt_tokens - self.cached_tokens) / self.prefill_s if self.prefill_s > 0 else 0.0

    @property
    def decode_tokens_per_s(self) -> float:
        return self.decoded_tokens / self.decode_s if self.decode_s > 0 else 0.0


class Event(NamedTuple):  # one is made for every token of every stream: six times as fast as a dataclass
    """News of one request: text and ids that are final, and at the end why it ended.

    The texts of a branch's events join to its whole text, the ids to its whole ids. Its last event
    alone has what stands from `finish_reason` to `error`. `logprobs` and `trace` have one entry for each of
    token_ids when the request asks for them, and none otherwise.
    """

    request_id: int
    text: str
    token_ids: tuple[int, ...]
    branch: int = 0  # which of the request's answers, where a search writes several
    finish_reason: FinishReason | None = None
    stop: str | int | None = None  # the stop string, pattern or token id that ended it
    seed: int | None = None  # None when no random number was drawn
    usage: Usage | None = None
    error: UnspoolError | None = None  # why finish_reason is "error"
    logprobs: tuple[TokenLogprobs, ...] = ()
    trace: tuple[TokenTrace, ...] = ()
    prompt_logprobs: tuple[TokenLogprobs, ...] = ()  # of the prompt's tokens after its first; told once
    score: float | None = None  # of an answer that a search ranked
    search_tree: SearchTree | None = None  # of a ranked search, when traced; told with its best answer


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole answer. `str()` of it is its text."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    stop: str | int | None  # the stop string, pattern or token id that ended it
    seed: int | None  # the seed used; None when no random number was drawn
    usage: Usage
    params: DecodingParams  # as they were applied
    logprobs: tuple[TokenLogprobs, ...] = ()  # one for each token id, when params.logprobs asks
    trace: tuple[TokenTrace, ...] = ()  # one for each token id, when params.trace asks
    prompt_logprobs: tuple[TokenLogprobs, ...] = ()  # of the prompt's tokens after its first, when asked
    score: float | None = None  # of an answer that a search ranked
    branch: int = 0  # which of the request's answers; with the seed, what its random numbers come from
    search_tree: SearchTree | None = None  # of a ranked search, when traced; the best answer alone has it

    def __str__(self) -> str:
        return self.text

    @classmethod
    def of(cls, events: Sequence[Event], params: DecodingParams) -> Completion:
        """What all the events of one branch add up to."""
        last = events[-1]
        assert last.finish_reason is not None, "the last event has the reason"
        assert last.usage is not None, "and the usage"
        return cls(
            text="".join(event.text for event in events),
            token_ids=tuple(token_id for event in events for token_id in event.token_ids),
            finish_reason=last.finish_reason,
            stop=last.stop,
            seed=last.seed,
            usage=last.usage,
            params=params,
            logprobs=tuple(entry for event in events for entry in event.logprobs),
            trace=tuple(entry for event in events for entry in event.trace),
            prompt_logprobs=tuple(entry for event in events for entry in event.prompt_logprobs),
            score=last.score,
            branch=last.branch,
            search_tree=last.search_tree,
        )
