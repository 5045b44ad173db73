"""A request in flight: its phase and its branches."""

from __future__ import annotations

import enum
from collections.abc import Hashable, Mapping
from dataclasses import field
from typing import Any, Final, Literal, TypeAlias

from unspool.engine.companion import OWN_MODEL, Companion
from unspool.engine.detokenize import Detokenizer
from unspool.engine.gaps import Gaps
from unspool.engine.notes import Notes
from unspool.engine.search_trace import TreeSoFar
from unspool.engine.strand import Strand
from unspool.engine.transcript import Ending, Transcript
from unspool.history import History
from unspool.light_dataclass import dataclass
from unspool.rules import Rules
from unspool.search.base import Search
from unspool.types import Request, Row, TokenLogprobs


class Phase(enum.Enum):
    WAITING = "waiting"  # holds no pages
    PREFILL = "prefill"  # the prompt, or after a preemption the whole text, is being read
    DECODE = "decode"  # each live branch has one token to feed
    DONE = "done"  # holds no pages


NEXT_PHASES: Final[Mapping[Phase, frozenset[Phase]]] = {
    Phase.WAITING: frozenset({Phase.PREFILL, Phase.DONE}),
    Phase.PREFILL: frozenset({Phase.DECODE, Phase.WAITING, Phase.DONE}),
    Phase.DECODE: frozenset({Phase.WAITING, Phase.DONE}),
    Phase.DONE: frozenset(),
}


# Whose pages they are: of all requests with one salt, or of one request, by its id. The tag keeps a salt and
# an id that look alike apart.
Owner: TypeAlias = tuple[Literal["shared", "own"], Hashable]


@dataclass(slots=True, eq=False, kw_only=True)
class Branch(Strand):
    """One hypothesis. `engine.commit` alone changes it."""

    branch_id: int
    transcript: Transcript
    history: History
    notes: Notes
    gaps: Gaps = field(default_factory=Gaps)
    ending: Ending | None = None  # of one that is kept: what ended its text; None: its length
    companions: tuple[Strand, ...] = ()  # what is read beside it, in the order of Task.companions

    @property
    def strands(self) -> tuple[Strand, ...]:
        """Itself and its companions."""
        return (self, *self.companions) if self.companions else (self,)


@dataclass(slots=True)
class Clock:
    """When things happened to a task, in seconds of one monotonic clock."""

    added: float
    started: float | None = None  # its first rows ran
    first_token: float | None = None


@dataclass(slots=True)
class Told:
    """How far the text of a ranked search's best answer was told while it was not known which it is."""

    n_tokens: int = 0
    n_bytes: int = 0
    detokenizer: Detokenizer = field(default_factory=Detokenizer)


@dataclass(slots=True, eq=False)
class Task:
    """One request on its way through the engine."""

    request_id: int
    request: Request
    n_prompt: int = field(init=False)  # tokens
    rules: Rules
    seed: int
    search: Search
    n_new_max: int  # tokens it may write, by max_tokens and by the context's end
    n_pages_max: int  # pages it may come to hold, when its branches share none
    salt: Owner  # whose pages it may find in the prefix tree, and who may find its own
    clock: Clock
    companions: tuple[Companion, ...] = ()  # who reads beside its branches
    priority: int = 0  # higher first
    is_followed: bool = True  # somebody reads its news as they come; else each answer is told at its end
    n_preempted: int = 0  # times that it was put back
    n_reread: int = 0  # tokens read once more after that
    n_prompt_cached: int = 0  # tokens of the prompt that were found in the prefix tree at first
    is_paused: bool = False  # it rests, in phase WAITING and in no queue, until someone resumes it
    has_output: bool = False  # a token was chosen: what is read now was read before
    branches: dict[int, Branch] = field(default_factory=dict)  # the live ones, in order of birth
    kept: dict[int, Branch] = field(default_factory=dict)  # ended ones that may be answers; without pages
    search_state: Any = None  # what the search knows, since the end of the prompt
    search_tree: TreeSoFar = field(default_factory=TreeSoFar)  # what the search did, for who traces
    n_told: int = 0  # answers of a ranked search that were told
    told: Told = field(
        default_factory=lambda: Told()
    )  # of its best answer, what was told before it was known
    phase: Phase = Phase.WAITING
    prompt_logprobs: list[TokenLogprobs] = field(default_factory=list)  # of the prompt so far, not yet told

    def __post_init__(self) -> None:
        self.n_prompt = len(self.request.prompt_ids)

    @property
    def rank(self) -> tuple[int, int]:
        """Who comes first: the higher priority, and then who came first."""
        return -self.priority, self.request_id

    @property
    def scores_prompt(self) -> bool:
        """Whether logits of all of the prompt are still wanted."""
        return self.request.params.prompt_logprobs is not None and not self.has_output

    @property
    def may_match(self) -> bool:
        """Whether pages may come from the prefix tree: a prompt that is scored is read as a whole."""
        return not self.scores_prompt

    def model_of(self, companion: int | None) -> int:
        """Which of the engine's models reads the branches, or a companion by its index."""
        return OWN_MODEL if companion is None else self.companions[companion].model

    def owner_of(self, companion: int | None) -> Hashable:
        """Whose pages a strand may find in the prefix tree. Models do not read each other's."""
        model = self.model_of(companion)
        return self.salt if model == OWN_MODEL else (model, self.salt)

    @property
    def n_tokens_cached(self) -> int:
        """Tokens whose K and V its strands hold, shared ones once for each."""
        return sum(strand.n_cached for branch in self.branches.values() for strand in branch.strands)

    @property
    def n_rows_max(self) -> int:
        """Rows of a step that its branches and their companions may take."""
        return self.search.max_branches * (1 + len(self.companions))

    @property
    def leaves_last(self) -> bool:
        """Whether the last token of each strand waits until all of them can be fed theirs in one step: after
        a preemption, and where logits of several strands are wanted together."""
        return self.has_output or bool(self.companions)

    @property
    def is_private(self) -> bool:
        """Whether nothing of it may stay in the prefix tree when it has ended."""
        return self.salt[0] == "own"

    @property
    def n_forks(self) -> int:
        """How many branches its search may start in the next step, beside those that live."""
        search = self.search
        if self.has_output:
            return search.max_branches - len(self.branches) if search.forks_later else 0
        return (search.max_branches if search.forks_later else search.n_first) - 1

    @property
    def first_branches(self) -> range:
        """The branches that start at the end of the prompt; the first of them reads it."""
        first = self.request.first_branch
        return range(first, first + self.search.n_first)

    @property
    def told_seed(self) -> int | None:
        """The seed as answers report it: None where nothing is drawn."""
        return self.seed if self.search.draws and not self.request.params.is_greedy else None

    def move_to(self, phase: Phase) -> None:
        assert phase in NEXT_PHASES[self.phase], f"a task cannot go from {self.phase.value} to {phase.value}"
        self.phase = phase

    def rows(self, branch: Branch) -> list[Row]:
        """The lines of the logits matrix that are about this branch's next token: one, and at the end of
        the prompt one for each branch that the search starts with."""
        if self.has_output:
            return [self._row(branch, branch.branch_id)]
        return [self._row(branch, branch_id) for branch_id in self.first_branches]

    def _row(self, branch: Branch, branch_id: int) -> Row:
        params = self.request.params
        wants_all = params.logprobs is not None or params.trace
        return Row(
            params,
            self.seed,
            branch_id,
            branch.token_ids,
            self.n_prompt,
            self.rules,
            branch.history,
            self.search.wants_candidates or wants_all,
            self.n_new_max,
            None if wants_all else self.search.n_candidates,
            lambda token_id: self._n_whole(branch, token_id),
            lambda token_id: self._ends(branch, token_id),
        )

    def _n_whole(self, branch: Branch, token_id: int) -> int | None:
        """How many tokens stay whole if this one is chosen; None: all, it cuts nothing."""
        ending = branch.transcript.accept(token_id)
        n_whole = None if ending is None else branch.transcript.n_whole
        branch.transcript.rollback(1)
        return n_whole

    def _ends(self, branch: Branch, token_id: int) -> bool:
        """Whether a token would end a branch's text: by what it says, or because no more may follow."""
        if len(branch.token_ids) + 1 - self.n_prompt >= self.n_new_max:
            return True
        ending = branch.transcript.accept(token_id)
        branch.transcript.rollback(1)
        return ending is not None
