"""One step of a constrained beam search: banks of hypotheses, and a width that they share.

What a bank is filled from are all continuations of all hypotheses that lead there, where the papers take the
best of each hypothesis and the best of all; so a beam wide enough for all texts finds the best of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest

import numpy as np

from unspool.errors import NoCandidate
from unspool.light_dataclass import dataclass
from unspool.search.base import Advance
from unspool.search.ending import end
from unspool.search.groups import n_heads
from unspool.search.hypotheses import Hypothesis, grow, pick
from unspool.search.phrases import START, Phrases, Progress
from unspool.search.ranking import Choices, Continuation, in_order
from unspool.search.stopping import Rule, is_over
from unspool.search.telling import Became, ended_as, given_up_of, key_of, tell
from unspool.search_tree import Considered, SearchStep
from unspool.types import Answer, Drop, Processed, Row


@dataclass(frozen=True, slots=True)
class Tracked:
    """A live hypothesis and how far its text is with the phrases."""

    hypothesis: Hypothesis
    progress: Progress


@dataclass(frozen=True, slots=True)
class ConstrainedState:
    """Where the search stands: the live ones by bank, the fullest first, and those that have ended."""

    live: tuple[Tracked, ...] = (Tracked(Hypothesis(0), START),)
    ended: tuple[Hypothesis, ...] = ()
    n_born: int = 1

    def standing(self, n_best: int) -> tuple[tuple[int, float], ...]:
        """(branch, score) of the answers if it had to end now: the ended, then the live by bank."""
        both = [*self.ended, *(tracked.hypothesis for tracked in self.live)]
        return tuple((h.branch, h.score) for h in both[:n_best])


def advance_constrained(
    rule: Rule,
    phrases: Phrases,
    n_best: int,
    state: ConstrainedState,
    rows: Sequence[Row],
    processed: Sequence[Processed],
) -> Advance[ConstrainedState]:
    """The next step of all banks; the n_best answers when no hypothesis lives on."""
    n_tokens = rows[0].position - rows[0].n_prompt + 1
    progress_of = {tracked.hypothesis.branch: tracked.progress for tracked in state.live}
    parents = {tracked.hypothesis.branch: tracked.hypothesis for tracked in state.live}
    banks: dict[int, list[Choices]] = {}
    for row, p in zip(rows, processed, strict=True):
        choices = Choices.of(row, p, parents[row.branch].logprob)
        for bank, part in _banked(phrases, progress_of[row.branch], choices, rows[0].n_new_max - n_tokens):
            banks.setdefault(bank, []).append(part)

    full = banks.pop(phrases.n_tokens, [])
    ending, going_on = pick(_sound(phrases, in_order(full, n_heads(rule.width))), rule.width)
    partial = [_going_on(banks[bank], rule.width) for bank in sorted(banks, reverse=True)]
    chosen = _dealt([going_on, *partial], rule.width)

    ended = end(rule, state.ended, ending, parents, n_tokens, state.n_born)
    moves, n_born, kept = list(ended.moves), state.n_born + len(ended.born), ended.kept
    values = sorted((parents[c.row.branch].logprob + c.logprob for c in chosen), reverse=True)
    if is_over(rule, kept, values, n_tokens, rows[0].n_new_max):
        chosen = []
    if not chosen and not kept:
        raise NoCandidate(
            f"after {n_tokens - 1} tokens no text is left that can still contain all phrases; let what is "
            "allowed, banned and stopped at leave room for them",
            code="phrases_unmet",
        )

    live, growing = grow(rows, chosen, parents, n_born, rule.norm(n_tokens))
    moves += growing
    tracked = tuple(
        Tracked(h, phrases.after(progress_of[c.row.branch], c.token_id))
        for h, c in zip(live, chosen, strict=True)
    )
    if not live:
        moves += [Drop(h.branch) for h in kept[n_best:]]
        moves += [Answer(h.branch, h.score) for h in kept[:n_best]]
    told = None
    if rows[0].params.trace:
        became: Became = {key_of(c): (h.branch, None) for c, h in zip(chosen, live, strict=True)}
        became |= ended_as(ended)
        told = SearchStep(
            n_tokens,
            tuple(_told({phrases.n_tokens: full, **banks}, rule.width, parents, became)),
            given_up_of(ended),
        )
    return Advance(ConstrainedState(tracked, kept, n_born + len(live)), tuple(moves), told)


def _told(
    banks: Mapping[int, Sequence[Choices]],
    width: int,
    parents: Mapping[int, Hypothesis],
    became: Became,
) -> Iterator[Considered]:
    """What became of the continuations of every bank, which is their group, the fullest first."""
    for bank in sorted(banks, reverse=True):
        here = {
            key: value
            for key, value in became.items()
            if any(key[0] == part.row.branch and key[1] in part.token_ids for part in banks[bank])
        }
        yield from tell(bank, width, parents, banks[bank], here, {}, n_may_end=width)


def _banked(
    phrases: Phrases, progress: Progress, choices: Choices, n_left: int
) -> Iterator[tuple[int, Choices]]:
    """The tokens that may follow a hypothesis by the bank they lead to, without those after which what is
    left of the phrases has no room in n_left tokens."""
    astray = phrases.astray(progress)
    if phrases.is_complete(progress):
        yield phrases.n_met(astray), choices
        return
    leading = phrases.leading(progress)
    if phrases.fits(astray, n_left):  # and so does whatever else follows
        others = choices.without(leading)
        if others.token_ids.size or others.whole is not None:
            yield phrases.n_met(astray), others
    if choices.whole is not None:
        choices = choices.whole()
    by_bank: dict[int, list[int]] = {}
    found_at = np.searchsorted(choices.token_ids, leading)
    for at, token_id in zip(found_at.tolist(), leading.tolist(), strict=True):
        if at == choices.token_ids.size or choices.token_ids[at] != token_id:
            continue  # masked
        after = phrases.after(progress, token_id)
        if phrases.fits(after, n_left):
            by_bank.setdefault(phrases.n_met(after), []).append(at)
    for bank, found in by_bank.items():
        yield bank, choices.at(np.array(found))


def _going_on(choices: Sequence[Choices], width: int) -> list[Continuation]:
    """The best of a bank that may not end yet."""
    order = in_order(choices, width)
    return [*islice((c for c in order if not c.row.ends_with(c.token_id)), width)]


def _sound(phrases: Phrases, order: Iterable[Continuation]) -> Iterator[Continuation]:
    """Those that go on, and those that end with all phrases."""
    return (c for c in order if not c.row.ends_with(c.token_id) or _stays(phrases, c))


def _stays(phrases: Phrases, c: Continuation) -> bool:
    """Whether a text that a token ends has all phrases in what is left of it: a stop may cut one."""
    n_whole = c.row.n_whole_with(c.token_id)
    if n_whole is None:
        return True
    written = [*c.row.token_ids[c.row.n_prompt :], c.token_id]
    return phrases.is_complete(phrases.over(written[:n_whole]))


def _dealt(banks: Sequence[Sequence[Continuation]], width: int) -> list[Continuation]:
    """The first `width` of the banks in rounds, and then bank by bank."""
    rounds = (c for dealt in zip_longest(*banks) for c in dealt if c is not None)
    taken = {id(c) for c in islice(rounds, width)}
    return [c for bank in banks for c in bank if id(c) in taken]
