"""Beam search: the B best hypotheses so far, step by step, and the best of those that have ended.

The score of a hypothesis is the sum of its tokens' log-probabilities over a length norm. For the settings
that both have, tokens and scores are those of transformers' beam search.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal, TypeAlias

from unspool.errors import BadRequest
from unspool.param_conflicts import STAGES, TEMPERATURES, TRUNCATION, is_on
from unspool.params import DecodingParams
from unspool.search.base import Advance
from unspool.search.length_norm import Kind, LengthNorm
from unspool.search.ranking import Continuation, in_order, logprobs_of
from unspool.types import Answer, Chosen, Complete, Drop, Extend, Fork, Move, Processed, Row

EarlyStopping: TypeAlias = bool | Literal["never", "exact"]
_MOST_BEAMS: Final = 256


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A live branch and the sum of its tokens' log-probabilities, or an ended one and its score."""

    branch: int
    value: float


@dataclass(frozen=True, slots=True)
class BeamState:
    """Where a beam search stands: hypotheses in order, the best first."""

    live: tuple[Hypothesis, ...]
    ended: tuple[Hypothesis, ...] = ()
    n_born: int = 1  # branches so far, which is the next one's number

    @property
    def standing(self) -> tuple[Hypothesis, ...]:
        """Who would be the answers if the search were over now; live ones by their plain sums, last."""
        return self.ended + self.live


@dataclass(frozen=True, slots=True, kw_only=True)
class Beam:
    """Beam search of a width.

    width           hypotheses that live at once. [1, 256]
    n_best          answers to give, the best first. [1, width]
    length_norm     "power" divides by L^alpha, "gnmt" by ((5 + L) / 6)^alpha, "none" by 1
    alpha           the exponent; above 0 it favours long answers, 0 is a plain sum
    early_stopping  True: stop when width hypotheses have ended. False: stop when the best live one, as
                    it stands, is below the worst of those. "never": the same with the longest length it may
                    reach, when alpha > 0. These three are transformers'. "exact": stop when no live
                    hypothesis can come to beat the worst of those, whatever follows
    """

    width: int = 4
    n_best: int = 1
    length_norm: Kind = "power"
    alpha: float = 1.0
    early_stopping: EarlyStopping = False

    n_first: ClassVar[int] = 1
    wants_candidates: ClassVar[bool] = True
    forks_later: ClassVar[bool] = True
    is_ranked: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name, most in (("width", _MOST_BEAMS), ("n_best", self.width)):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= most:
                raise BadRequest(
                    f"{name} must be a whole number in [1, {most}], got {value!r}; "
                    + ("1 is greedy search" if name == "width" else "a wider beam has more answers"),
                    code=f"bad_{name}",
                )
        if not isinstance(self.early_stopping, bool) and self.early_stopping not in ("never", "exact"):
            raise BadRequest(
                "early_stopping must be True, False, 'never' or 'exact', "
                f"got {self.early_stopping!r}; 'exact' never loses an answer",
                code="bad_early_stopping",
            )
        LengthNorm(self.length_norm, self.alpha)

    @property
    def n_answers(self) -> int:
        return self.n_best

    @property
    def max_branches(self) -> int:
        return self.width

    def check(self, params: DecodingParams) -> None:
        """Raise BadRequest for parameters that would be ignored: nothing is drawn here."""
        drawing = [s for s in (*TEMPERATURES, *TRUNCATION, "mirostat", "adaptive") if is_on(s, params)]
        if drawing and not params.is_greedy:
            name = STAGES[drawing[0]][0]
            raise BadRequest(
                f"{name}={getattr(params, name)!r} has no meaning in a beam search, which draws nothing; "
                "leave it out, or search with Sample",
                code="conflicting_parameters",
            )

    def start(self) -> BeamState:
        return BeamState(live=(Hypothesis(0, 0.0),))

    def standing(self, state: BeamState) -> tuple[tuple[int, float], ...]:
        """(branch, score) of what would be told if the search had to end now, best first."""
        return tuple((h.branch, h.value) for h in state.standing[: self.n_best])

    def advance(
        self, state: BeamState, rows: Sequence[Row], processed: Sequence[Processed]
    ) -> Advance[BeamState]:
        value_of = {h.branch: h.value for h in state.live}
        logprobs = [logprobs_of(p.candidates) for p in processed if p.candidates is not None]
        order = in_order(rows, logprobs, processed, [value_of[row.branch] for row in rows], 2 * self.width)
        ending, going_on = _pick(order, self.width)
        n_tokens = rows[0].position - rows[0].n_prompt + 1
        norm = LengthNorm(self.length_norm, self.alpha)
        n_born = state.n_born
        moves: list[Move] = []

        born: list[tuple[Hypothesis, Continuation]] = []
        if not (self.early_stopping is True and len(state.ended) == self.width):
            for c in ending:
                born.append((Hypothesis(n_born, c.total / norm(n_tokens)), c))
                n_born += 1
        pool = sorted([*state.ended, *(h for h, _ in born)], key=lambda h: -h.value)[: self.width]
        kept = {h.branch for h in pool}
        moves += [Complete(c.row.branch, h.branch, Chosen(c.token_id)) for h, c in born if h.branch in kept]
        moves += [Drop(h.branch) for h in state.ended if h.branch not in kept]

        live, growing = _grow(rows, going_on, n_born)
        n_born += sum(isinstance(move, Fork) for move in growing)
        moves += growing
        after = BeamState(live, tuple(pool), n_born)
        if self._is_over(after, n_tokens, rows[0].n_new_max, norm):
            answers = pool[: self.n_best]
            moves += [Drop(h.branch) for h in live]
            moves += [Drop(h.branch) for h in pool[self.n_best :]]
            moves += [Answer(h.branch, h.value) for h in answers]
            after = replace(after, live=())
        return Advance(after, tuple(moves))

    def _is_over(self, state: BeamState, n_tokens: int, n_most: int, norm: LengthNorm) -> bool:
        if not state.live:
            return True
        if len(state.ended) < self.width:
            return False
        if self.early_stopping is True:
            return True
        worst = state.ended[-1].value
        if self.early_stopping == "exact":
            return all(norm.best(h.value, n_tokens, max(n_most, n_tokens)) <= worst for h in state.live)
        is_longest = self.early_stopping == "never" and self.alpha > 0
        return state.live[0].value / norm(n_most if is_longest else n_tokens) <= worst


def _pick(order: Iterable[Continuation], width: int) -> tuple[list[Continuation], list[Continuation]]:
    """Of the first `width` continuations those that end a text, and the first `width` that do not."""
    ending: list[Continuation] = []
    going_on: list[Continuation] = []
    for place, continuation in enumerate(order):
        if continuation.row.ends_with(continuation.token_id):
            if place < width:
                ending.append(continuation)
        else:
            going_on.append(continuation)
        if len(going_on) == width and place + 1 >= width:
            break
    return ending, going_on


def _grow(
    rows: Sequence[Row], chosen: Sequence[Continuation], n_born: int
) -> tuple[tuple[Hypothesis, ...], list[Move]]:
    """The next live hypotheses, and the moves to them: the first child of a branch is the branch itself."""
    parents = {c.row.branch for c in chosen}
    drops: list[Move] = [Drop(row.branch) for row in rows if row.branch not in parents]
    forks: list[Move] = []
    extends: list[Move] = []
    live: list[Hypothesis] = []
    taken: set[int] = set()
    for c in chosen:
        branch = c.row.branch
        if branch in taken:
            forks.append(Fork(branch, n_born))
            branch = n_born
            n_born += 1
        taken.add(branch)
        extends.append(Extend(branch, (Chosen(c.token_id),)))
        live.append(Hypothesis(branch, c.total))
    return tuple(live), [*drops, *forks, *extends]
