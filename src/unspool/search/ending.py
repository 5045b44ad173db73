"""The texts that end in a step of beams, and which of all that have ended keep their places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unspool.light_dataclass import dataclass
from unspool.search.hypotheses import Hypothesis, best_first
from unspool.search.ranking import Continuation
from unspool.search.stopping import Rule
from unspool.types import Chosen, Complete, Drop, Move


@dataclass(frozen=True, slots=True)
class Ended:
    """Where the ended ones stand after a step."""

    pool: tuple[Hypothesis, ...]  # all, the best first, before the last of them are given up
    born: Mapping[int, Continuation]  # those of the pool that ended at this step, by branch
    n_places: int
    moves: tuple[Move, ...]

    @property
    def kept(self) -> tuple[Hypothesis, ...]:
        return self.pool[: self.n_places]

    @property
    def given_up(self) -> tuple[Hypothesis, ...]:
        return self.pool[self.n_places :]


def end(
    rule: Rule,
    before: Sequence[Hypothesis],
    ending: Sequence[Continuation],
    parents: Mapping[int, Hypothesis],
    n_tokens: int,
    n_born: int,
) -> Ended:
    """Add the continuations that end a text to those that ended before; branches are numbered from n_born on.

    With early_stopping=True a pool that is full takes no more: its step was the last.
    """
    pool, moves, born = list(before), list[Move](), dict[int, Continuation]()
    for c in ending if not (rule.early_stopping is True and len(pool) == rule.width) else ():
        branch, total = n_born + len(born), parents[c.row.branch].logprob + c.logprob
        moves.append(Complete(c.row.branch, branch, Chosen(c.token_id)))
        pool.append(Hypothesis(branch, total, score=total / rule.norm(n_tokens)))
        born[branch] = c
    pool = best_first(pool)
    moves += [Drop(h.branch) for h in pool[rule.width :]]
    return Ended(tuple(pool), born, rule.width, tuple(moves))
