"""Runs best-of-n over the events of n answers: judge each that ends, stop when that is enough, rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final, Literal, Protocol

from unspool.errors import VerifierError
from unspool.light_dataclass import dataclass
from unspool.params import DecodingParams
from unspool.search.best_of import BestOf
from unspool.search.verifiers.base import Ranking, Verdict, Vote
from unspool.types import Completion, Event

Ended = Literal["complete", "decided", "budget", "cancelled"]


_WHY: Final[Mapping[Ended, str]] = {"budget": "the budget was spent", "cancelled": "broken off"}


class Answers(Protocol):
    """Events of n answers to one prompt; `close` stops those that are still being written."""

    def __iter__(self) -> Iterator[Event]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Judged:
    """One answer and what became of it."""

    branch: int  # which of the n it was; with the seed it repeats the answer
    text: str
    token_ids: tuple[int, ...]
    completion: Completion | None  # None for an answer that was stopped before its end
    verdict: Verdict | None  # None where nobody judged it
    problem: str = ""  # why nobody did
    error: VerifierError | None = None  # the same, when somebody tried

    @property
    def is_accepted(self) -> bool:
        return self.verdict is not None and self.verdict.accepted is True


@dataclass(frozen=True, slots=True)
class BestReport:
    """All answers, the best first: ranked ones, then those that nobody judged."""

    answers: tuple[Judged, ...]
    votes: tuple[Vote, ...]  # what each result got, the most first; none where nothing was voted on
    n_tokens: int  # chosen for all answers until it was enough, those that end them and show no text too
    # complete: all answers ended | decided: the verifier had enough | budget: it was spent | cancelled: by
    # who broke it off
    ended: Ended
    seed: int | None
    tied: tuple[int, ...] = ()  # branches that were judged alike with the best, which was the first; no votes

    @property
    def tied_votes(self) -> tuple[Vote, ...]:
        """Results that share the most votes, the one that won first: an answer came to it before any came to
        the others. None where one has the most."""
        most = [vote for vote in self.votes if vote.weight == self.votes[0].weight]
        return tuple(most) if len(most) > 1 else ()

    @property
    def best(self) -> Judged | None:
        """The answer that won; None when none ended within the budget."""
        first = self.answers[0]
        return first if first.verdict is not None else None

    @property
    def n_accepted(self) -> int:
        return sum(answer.is_accepted for answer in self.answers)

    def __str__(self) -> str:
        return "" if self.best is None else self.best.text


def run_best(
    answers: Answers,
    prompt: str,
    spec: BestOf,
    params: DecodingParams,
    watch: Callable[[Judged], None] | None = None,
    *,
    first_branch: int = 0,
) -> BestReport:
    """Judge n answers to a prompt as they end; `params` are those they are written with.

    Answers are judged one at a time in the order in which they end, so the report is the same on every run:
    whatever a verifier takes, and however far the engine runs ahead meanwhile, an answer that ends later is
    judged later or not at all. `watch` hears of each answer when it is judged.

    The budget counts tokens that have been told and, of answers that have ended, all that were chosen; what
    one step adds may pass it. An answer that ends with the token that spends the budget is judged.

    An answer that could not be judged (VerifierError) is ranked behind those that were. When that is so
    for all that ended, the last of these errors is raised.
    """
    run = BestRun.of(prompt, spec, params, watch, first_branch)
    try:
        for event in answers:
            whole = run.hear(event)
            if run.is_enough(None if whole is None else run.judge(whole)):
                break
    finally:
        answers.close()
    return run.report()


def broken_off(judged: Sequence[Judged], prompt: str, spec: BestOf, params: DecodingParams) -> BestReport:
    """What there is to report of a run that raised before its end, from what `watch` heard."""
    run = BestRun.of(prompt, spec, params, None, 0)
    run.ended, run.seed = "cancelled", params.seed
    for each in judged:
        run.judged[each.branch] = each
        run.n_told[each.branch] = 0 if each.completion is None else _n_chosen(each.completion)
    return run.report()


@dataclass(slots=True)
class BestRun:
    """What is known while answers come in: `hear` an event, `judge` the answer that it makes whole, and ask
    whether it `is_enough`. Only `judge` may take long; it changes nothing, and may run in another thread."""

    prompt: str
    spec: BestOf
    params: DecodingParams
    watch: Callable[[Judged], None] | None
    branches: range
    ended: Ended = "complete"
    events: dict[int, list[Event]] = field(default_factory=dict)  # of each branch
    judged: dict[int, Judged] = field(default_factory=dict)  # those that have ended, in that order
    n_told: dict[int, int] = field(default_factory=dict)  # tokens of each branch
    seed: int | None = None

    @classmethod
    def of(
        cls,
        prompt: str,
        spec: BestOf,
        params: DecodingParams,
        watch: Callable[[Judged], None] | None,
        first_branch: int,
    ) -> BestRun:
        return cls(prompt, spec, params, watch, range(first_branch, first_branch + spec.n))

    @property
    def n_left(self) -> int:
        """Answers that have not ended."""
        return self.spec.n - len(self.judged)

    @property
    def n_tokens(self) -> int:
        return sum(self.n_told.values())

    @property
    def ranked(self) -> list[tuple[Judged, Verdict]]:
        return [(each, each.verdict) for each in self.judged.values() if each.verdict is not None]

    @property
    def ranking(self) -> Ranking:
        return self.spec.verifier.rank([verdict for _, verdict in self.ranked], self.n_left)

    def hear(self, event: Event) -> Completion | None:
        """The answer that an event makes whole, if it is to be judged."""
        if event.error is not None:
            return None  # what follows it raises
        branch = event.branch
        self.events.setdefault(branch, []).append(event)
        self.n_told[branch] = self.n_told.get(branch, 0) + len(event.token_ids)
        if event.finish_reason is None:
            return None
        completion = Completion.of(self.events[branch], self.params)
        self.n_told[branch] = _n_chosen(completion)
        self.seed = completion.seed if self.seed is None else self.seed
        return completion if self.ended == "complete" else None

    def judge(self, completion: Completion) -> Judged:
        branch, text, ids = completion.branch, completion.text, completion.token_ids
        try:
            verdict = self.spec.verifier(self.prompt, completion)
        except VerifierError as error:
            return Judged(branch, text, ids, completion, None, str(error), error)
        return Judged(branch, text, ids, completion, verdict)

    def is_enough(self, judged: Judged | None) -> bool:
        """Whether no more needs to be heard; `judged` is an answer that has just been."""
        if judged is not None:
            self.judged[judged.branch] = judged
            if self.watch is not None:
                self.watch(judged)
        if not self.n_left or self.ended != "complete":
            return False
        if self.spec.early_stop and judged is not None and self.ranking.is_decided:
            self.ended = "decided"
        elif self.spec.budget_tokens is not None and self.n_tokens >= self.spec.budget_tokens:
            self.ended = "budget"
        # The answers of a ranked search are all there by then, to be heard though nobody judges them.
        return self.ended != "complete" and not self.spec.search.is_ranked

    def report(self) -> BestReport:
        ranked = self.ranked
        errors = [each.error for each in self.judged.values() if each.error is not None]
        if errors and not ranked and self.ended != "cancelled":
            raise errors[-1]
        ranking = self.ranking
        best_first = [ranked[index][0] for index in ranking.order]
        rest = [each for each in self.judged.values() if each.verdict is None]
        rest += [self._unjudged(branch) for branch in self.branches if branch not in self.judged]
        tied = () if ranking.votes else _tied(ranked, ranking)
        return BestReport((*best_first, *rest), ranking.votes, self.n_tokens, self.ended, self.seed, tied)

    def _unjudged(self, branch: int) -> Judged:
        events: Sequence[Event] = self.events.get(branch, ())
        text = "".join(event.text for event in events)
        ids = tuple(token_id for event in events for token_id in event.token_ids)
        if events and events[-1].finish_reason is not None:
            whole = Completion.of(events, self.params)
            return Judged(branch, text, ids, whole, None, "not judged: the others were enough")
        return Judged(branch, text, ids, None, None, _WHY.get(self.ended, "stopped: the others were enough"))


def _tied(ranked: Sequence[tuple[Judged, Verdict]], ranking: Ranking) -> tuple[int, ...]:
    """Branches that only the order in which they ended puts behind the best, and the best before them."""
    if not ranking.order:
        return ()
    best = ranked[ranking.order[0]][1]
    alike = [
        i
        for i, (_, verdict) in enumerate(ranked)
        if (verdict.accepted, verdict.score) == (best.accepted, best.score)
    ]
    is_first = alike[0] == ranking.order[0]
    return tuple(ranked[i][0].branch for i in alike) if is_first and len(alike) > 1 else ()


def _n_chosen(completion: Completion) -> int:
    """Tokens that were chosen for an answer, those that were cut from its end too."""
    n_after_first = completion.usage.decoded_tokens
    has_first = (
        n_after_first or completion.token_ids or completion.finish_reason in ("stop", "length", "loop")
    )
    return n_after_first + 1 if has_first else 0
