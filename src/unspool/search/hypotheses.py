"""What beams are made of: hypotheses, which of their continuations live on, and the moves to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from unspool.light_dataclass import dataclass
from unspool.search.ranking import Continuation
from unspool.types import Chosen, Drop, Extend, Fork, Move, Row


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A branch with what the search knows of it."""

    branch: int
    logprob: float = 0.0  # sum over its tokens
    rank_value: float = 0.0  # what it is ranked by while it lives, where that is another number
    score: float = (
        0.0  # what it is worth as an answer: one that has ended, or one that has to end as it stands
    )


def best_first(ended: Sequence[Hypothesis]) -> list[Hypothesis]:
    """By score; of equal ones the older first."""
    return sorted(ended, key=lambda h: -h.score)


def pick(order: Iterable[Continuation], width: int) -> tuple[list[Continuation], list[Continuation]]:
    """Of the first `width` continuations those that end a text, and the first `width` that do not."""
    ending: list[Continuation] = []
    going_on: list[Continuation] = []
    for place, continuation in enumerate(order):
        if continuation.row.ends_with(continuation.token_id):
            if place < width:
                ending.append(continuation)
        else:
            going_on.append(continuation)
        if place + 1 >= width and (len(going_on) == width or continuation.row.is_last):
            break  # of the last tokens of a text none goes on, so the rest would be looked at in vain
    return ending, going_on


def grow(
    rows: Sequence[Row],
    chosen: Sequence[Continuation],
    parents: Mapping[int, Hypothesis],
    n_born: int,
    divisor: float = 1.0,
) -> tuple[list[Hypothesis], list[Move]]:
    """The hypotheses that live on, in the order of `chosen`, and the moves to them. Their scores are their
    log-probabilities over `divisor`.

    The first child of a branch is the branch itself, the others are forks of it, numbered from n_born on.
    Branches without a child are dropped first, so that their pages are free for the forks.
    """
    with_child = {c.row.branch for c in chosen}
    drops: list[Move] = [Drop(row.branch) for row in rows if row.branch not in with_child]
    forks: list[Move] = []
    extends: list[Move] = []
    live: list[Hypothesis] = []
    grown: set[int] = set()
    for c in chosen:
        parent = parents[c.row.branch]
        branch = parent.branch
        if branch in grown:
            branch = n_born + len(forks)
            forks.append(Fork(parent.branch, branch))
        grown.add(branch)
        extends.append(Extend(branch, (Chosen(c.token_id),)))
        logprob = parent.logprob + c.logprob
        live.append(Hypothesis(branch, logprob, rank_value=c.rank_value, score=logprob / divisor))
    return live, [*drops, *forks, *extends]
