"""One step of beams in groups, each kept from the words of those before it; plain beam search has one group.

How a group ranks the continuations of its hypotheses is an argument. A diverse beam takes `strength` off
for every time that an earlier group has chosen the token at this step, and what was taken off stays in the
rank of a hypothesis; its score is the plain one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from unspool.light_dataclass import dataclass
from unspool.search.base import Advance
from unspool.search.ending import end
from unspool.search.hypotheses import Hypothesis, best_first, grow, pick
from unspool.search.ranking import Choices, Continuation, in_order
from unspool.search.stopping import Rule, is_over
from unspool.search.telling import GroupStep, tell_groups
from unspool.types import F64, Answer, Drop, Ids, Move, Processed, Row

# What may follow a hypothesis, given the tokens that earlier groups have chosen at this step.
Choosing: TypeAlias = Callable[[Hypothesis, Row, Processed, Counter[int]], Choices]


@dataclass(frozen=True, slots=True)
class Group:
    """The hypotheses of one group, the best first."""

    live: tuple[Hypothesis, ...] = (Hypothesis(0),)
    ended: tuple[Hypothesis, ...] = ()


@dataclass(frozen=True, slots=True)
class Groups:
    """Where a beam search stands. At first every group has the same branch, 0."""

    groups: tuple[Group, ...]
    n_born: int = 1  # branches so far, which is the next one's number

    def standing(self, n_best: int) -> tuple[tuple[int, float], ...]:
        """(branch, score) of the answers if it had to end now: the ended first, then the live as they are."""
        ended = best_first([h for group in self.groups for h in group.ended])
        live = best_first([h for group in self.groups for h in group.live])
        distinct = {h.branch: h for h in [*ended, *live]}
        return tuple((h.branch, h.score) for h in [*distinct.values()][:n_best])


def n_heads(width: int) -> int:
    """How many continuations of a group are looked at first: some of them may end a text."""
    return 2 * width


def advance(
    rule: Rule,
    choices_of: Choosing,
    n_best: int,
    state: Groups,
    rows: Sequence[Row],
    processed: Sequence[Processed],
) -> Advance[Groups]:
    """The next step of every group; the n_best answers of all when no hypothesis lives on."""
    said = {row.branch: (row, p) for row, p in zip(rows, processed, strict=True)}
    n_tokens = rows[0].position - rows[0].n_prompt + 1
    taken: Counter[int] = Counter()  # tokens that earlier groups have chosen at this step
    moves: list[Move] = []
    chosen: list[list[Continuation]] = []
    kept: list[tuple[Hypothesis, ...]] = []  # of each group, those that have ended
    traced: list[GroupStep] = []
    n_born = state.n_born
    for group in state.groups:
        choices = [choices_of(h, *said[h.branch], taken) for h in group.live]
        ending, going_on = pick(in_order(choices, n_heads(rule.width)), rule.width)
        parents = {h.branch: h for h in group.live}
        ended = end(rule, group.ended, ending, parents, n_tokens, n_born)
        moves += ended.moves
        n_born += len(ended.born)
        kept.append(ended.kept)
        values = sorted((parents[c.row.branch].logprob + c.logprob for c in going_on), reverse=True)
        has_enough = is_over(rule, ended.kept, values, n_tokens, rows[0].n_new_max)
        if rows[0].params.trace:
            plain = [choices_of(h, *said[h.branch], Counter()) for h in group.live]
            traced.append(GroupStep(parents, choices, plain, ending, going_on, has_enough, ended))
        chosen.append([] if has_enough else going_on)
        taken.update(c.token_id for c in chosen[-1])

    all_parents = {h.branch: h for group in state.groups for h in group.live}
    going = [c for continuing in chosen for c in continuing]
    live, growing = grow(rows, going, all_parents, n_born, rule.norm(n_tokens))
    moves += growing
    groups, at = [], 0
    for its_ended, continuing in zip(kept, chosen, strict=True):
        groups.append(Group(tuple(live[at : at + len(continuing)]), its_ended))
        at += len(continuing)
    if not live:
        answers = best_first([h for group in groups for h in group.ended])
        moves += [Drop(h.branch) for h in answers[n_best:]]
        moves += [Answer(h.branch, h.score) for h in answers[:n_best]]
    told = tell_groups(n_tokens, rule.width, traced, live) if traced else None
    return Advance(Groups(tuple(groups), n_born + len(live)), tuple(moves), told)


def likeliest(hypothesis: Hypothesis, row: Row, processed: Processed, taken: Counter[int]) -> Choices:
    """Ranked by the log-probability of the hypothesis with the token, whatever was taken."""
    return Choices.of(row, processed, hypothesis.rank_value)


def untaken(strength: float) -> Choosing:
    """Ranked by the same less `strength` for each time that a token was taken."""

    def choices_of(hypothesis: Hypothesis, row: Row, processed: Processed, taken: Counter[int]) -> Choices:
        choices = Choices.of(row, processed, hypothesis.rank_value)
        if not taken or strength == 0:
            return choices
        ids = np.array(sorted(taken))
        counts = np.array([taken[token_id] for token_id in ids.tolist()])
        return choices.ranked(partial(_less, ids, strength * counts))

    return choices_of


def _less(ids: Ids, amounts: F64, choices: Choices) -> F64:
    """The rank values with something taken off those of some tokens, ids ascending."""
    found = np.isin(ids, choices.token_ids)
    values: F64 = choices.rank_values.copy()
    values[np.searchsorted(choices.token_ids, ids[found])] -= amounts[found]
    return values
