"""What a search that follows several hypotheses did, step by step: plain values, for people and programs.

A search tells these when the parameter `trace` asks; the engine adds the texts and hands the whole out with
the best answer. A hypothesis is named by its branch: where one goes on as two, the first keeps its number.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from unspool.light_dataclass import dataclass

Fate: TypeAlias = Literal["kept", "finished", "dropped"]
Why: TypeAlias = Literal["rank", "group", "no room", "worse", "stop rule"]

MOST_CONSIDERED: Final = 50_000  # continuations that a tree holds; the steps after that are counted alone

WHY: Final[dict[Why, str]] = {
    "rank": "others of the step, or of the ended ones, ranked before it",
    "group": "it would have lived, had no earlier group chosen its token at this step",
    "no room": "it ends its text, which only the first `width` of a step may do",
    "worse": "it ended, below the worst of the ended ones that are kept",
    "stop rule": "it would have lived, but the search, or its group, had enough",
}


@dataclass(frozen=True, slots=True)
class Considered:
    """A hypothesis and a token that may come next, and what became of the two."""

    parent: int  # the branch that it goes on from
    branch: int | None  # the one that it has become; None of one that was dropped
    token_id: int
    logprob: float  # of the token, among the survivors of its row
    total_logprob: float  # of all the tokens of the hypothesis with it
    rank_value: float  # what it was ranked by; with groups or noise not the same as total_logprob
    place: int  # in the order of its group, from 1
    fate: Fate
    why: Why | None = None  # it was dropped; what each means: WHY
    score: float | None = None  # of one that finished
    group: int = 0
    text: str = ""  # of the token, for display


@dataclass(frozen=True, slots=True)
class SearchStep:
    """One step of a search: for each group its first continuations, the best first.

    Of what was dropped, the first are told, up to twice the group's width, and whatever an earlier group has
    pushed out.
    """

    n_tokens: int  # of each hypothesis with the token of this step
    considered: tuple[Considered, ...]
    given_up: tuple[int, ...] = ()  # branches that finished in earlier steps; better ones have their places


@dataclass(frozen=True, slots=True)
class SearchTree:
    """All the steps of one request's search, and what came of it."""

    steps: tuple[SearchStep, ...]
    answers: tuple[tuple[int, float], ...]  # (branch, score) of the answers, best first
    n_untold: int = 0  # steps after the last of `steps`, for want of room: see MOST_CONSIDERED

    def path(self, branch: int) -> tuple[Considered, ...]:
        """How a branch came about, from its first token to its last, as far as the steps are told."""
        found: list[Considered] = []
        for step in reversed(self.steps):
            grown = next((c for c in step.considered if c.branch == branch), None)
            if grown is not None:
                found.append(grown)
                branch = grown.parent
        return tuple(reversed(found))
