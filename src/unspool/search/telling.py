"""What a step of a beam search looked at and decided, told for who traces. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

from unspool.light_dataclass import dataclass
from unspool.search.ending import Ended
from unspool.search.hypotheses import Hypothesis
from unspool.search.ranking import Choices, Continuation, in_order
from unspool.search_tree import Considered, SearchStep, Why

Key: TypeAlias = tuple[int, int]  # of a continuation: branch and token id
Became: TypeAlias = dict[Key, tuple[int, float | None]]  # the branch it is now; its score if it ended


@dataclass(frozen=True, slots=True)
class GroupStep:
    """One group of beams at one step: what it had to choose from, and what it chose."""

    parents: Mapping[int, Hypothesis]  # the live hypotheses before the step, by branch
    choices: Sequence[Choices]
    plain: Sequence[Choices]  # the same without what earlier groups have cost
    ending: Sequence[Continuation]  # those that may end
    going_on: Sequence[Continuation]  # those that may live on
    is_over: bool  # the group had enough, so that none of them does
    ended: Ended


def tell_groups(
    n_tokens: int, width: int, steps: Sequence[GroupStep], live: Sequence[Hypothesis]
) -> SearchStep:
    """What became of the continuations of every group; `live` are the hypotheses that go on, in order."""
    considered: list[Considered] = []
    given_up: list[int] = []
    hypotheses = iter(live)
    for number, step in enumerate(steps):
        became: Became = {}
        for c in () if step.is_over else step.going_on:
            became[key_of(c)] = next(hypotheses).branch, None
        became |= ended_as(step.ended)
        given_up += given_up_of(step.ended)
        why: dict[Key, Why] = {key_of(c): "worse" for c in step.ending}
        why |= {key_of(c): "stop rule" for c in step.going_on}
        why |= {key_of(c): "group" for c in _pushed_out(step, width)}
        considered += tell(number, width, step.parents, step.choices, became, why, n_may_end=width)
    return SearchStep(n_tokens, tuple(considered), tuple(given_up))


def ended_as(ended: Ended) -> Became:
    """What those have become that ended at a step and keep their places."""
    born = ended.born
    return {key_of(born[h.branch]): (h.branch, h.score) for h in ended.kept if h.branch in born}


def given_up_of(ended: Ended) -> tuple[int, ...]:
    """The branches that had ended before and have lost their places."""
    return tuple(h.branch for h in ended.given_up if h.branch not in ended.born)


def _pushed_out(step: GroupStep, width: int) -> list[Continuation]:
    """Those that would live on, had earlier groups not chosen their tokens."""
    taken = {key_of(c) for c in step.going_on}
    would = (c for c in in_order(step.plain, 2 * width) if not c.row.ends_with(c.token_id))
    return [c for c in islice(would, width) if key_of(c) not in taken]


def tell(
    number: int,
    width: int,
    parents: Mapping[int, Hypothesis],
    choices: Sequence[Choices],
    became: Became,
    why: Mapping[Key, Why],
    *,
    n_may_end: int | None = None,
) -> Iterator[Considered]:
    """Twice the width of continuations, and beyond those each of which something is to be said.

    `became` has what lives on or ended.
    `n_may_end` is how many of the first may end a text; None is all.
    """
    unsaid = became.keys() | why.keys()
    for place, c in enumerate(in_order(choices, 2 * width), start=1):
        if place > 2 * width and not unsaid:
            return
        key = key_of(c)
        if place > 2 * width and key not in unsaid:
            continue
        unsaid.discard(key)
        branch, score = became.get(key, (None, None))
        is_late = n_may_end is not None and place > n_may_end and not c.row.is_last
        by_rank: Why = "no room" if is_late and c.row.ends_with(c.token_id) else "rank"
        yield Considered(
            parent=c.row.branch,
            branch=branch,
            token_id=c.token_id,
            logprob=c.logprob,
            total_logprob=parents[c.row.branch].logprob + c.logprob,
            rank_value=c.rank_value,
            place=place,
            fate="dropped" if branch is None else "kept" if score is None else "finished",
            why=None if branch is not None else why.get(key, by_rank),
            score=score,
            group=number,
        )


def key_of(continuation: Continuation) -> Key:
    """What tells a continuation from the others of a step."""
    return continuation.row.branch, continuation.token_id
