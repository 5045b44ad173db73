"""Constrained beam search written out: a text is searched for its phrases whenever something is asked.

`written_out` is every search, those of `search_twins` too.
"""

from __future__ import annotations

import itertools

from search_twins import Found, Text, World, beams, grown, has_enough, named, sample, stochastic

from unspool.errors import NoCandidate
from unspool.search.length_norm import LengthNorm


def contains(ids, spelling) -> bool:
    return any(ids[i : i + len(spelling)] == spelling for i in range(len(ids)))


def unmet(ids, phrases):
    return [phrase for phrase in phrases if not any(contains(ids, spelling) for spelling in phrase)]


def n_needed(ids, phrases) -> int:
    """Tokens of what is unmet, less what the text ends with of one of them."""
    left = unmet(ids, phrases)
    begun = [
        min(map(len, phrase)) - (len(spelling) - n)
        for phrase in left
        for spelling in phrase
        for n in range(1, len(spelling))
        if ids[-n:] == spelling[:n]
    ]
    return sum(min(map(len, phrase)) for phrase in left) - max([0, *begun])


def fits(ids, phrases, n_left) -> bool:
    if n_needed(ids, phrases) <= n_left:
        return True
    tokens = sorted({t for phrase in phrases for spelling in phrase for t in spelling})
    return any(not unmet((*ids, *more), phrases) for more in itertools.product(tokens, repeat=n_left))


def whole_part(world: World, ids):
    """The tokens that stay whole when a text has ended."""
    ending = world.ending(ids)
    if ending is None:
        return ids
    _, n_bytes, n_tokens = ending
    ends = list(itertools.accumulate(len(world.vocabulary.token_bytes(i)) for i in ids))
    return ids[: min(sum(end <= n_bytes for end in ends), n_tokens)]


def constrained(world: World, search) -> list[Found]:
    phrases, width = search.phrases, search.width
    norm = LengthNorm(search.length_norm, search.alpha)
    n_all = sum(min(map(len, phrase)) for phrase in phrases)
    live, pool, n_born, n = [Text()], list[Text](), 1, 0
    while live and n < world.n_steps:
        n += 1
        banks: dict[int, list] = {bank: [] for bank in range(n_all, -1, -1)}
        for i, text in enumerate(live):
            for token_id, logprob in world.next_logprobs(text).items():
                ids = (*text.ids, token_id)
                is_end = world.is_end(ids)
                bank = n_all if is_end else n_all - n_needed(ids, phrases)
                is_sound = not unmet(whole_part(world, ids), phrases) if is_end else True
                if is_sound and (is_end or fits(ids, phrases, world.n_max - n)):
                    banks[bank].append((-(text.total + logprob), i, token_id, logprob, is_end))
        for order in banks.values():
            order.sort()
        is_full = search.early_stopping is True and len(pool) == width
        for value, i, t, lp, is_end in () if is_full else banks[n_all][:width]:
            if is_end:
                pool.append(grown(live[i], t, lp, branch=n_born, score=-value / norm(n)))
                n_born += 1
        pool = sorted(pool, key=lambda h: -h.score)[:width]
        lists = [[each for each in order if not each[4]][:width] for order in banks.values()]
        places = [0] * len(lists)
        while sum(places) < width and any(p < len(each) for p, each in zip(places, lists, strict=True)):
            for b, each in enumerate(lists):
                places[b] += places[b] < len(each) and sum(places) < width
        chosen = [each for p, order in zip(places, lists, strict=True) for each in order[:p]]
        totals = sorted((-each[0] for each in chosen), reverse=True)
        if len(pool) == width and chosen and has_enough(search, world, norm, pool, totals, n):
            chosen = []
        if not chosen and not pool:
            raise NoCandidate("no text is left that can still contain all phrases")
        live = named(n_born, [(live[i], t, lp, -value) for value, i, t, lp, _ in chosen])
        n_born += len(live)
    answers = [world.told(text, score=text.score) for text in pool]
    answers += [world.told(text, score=text.total / norm(max(n, 1)), is_cut=True) for text in live]
    return answers[: search.n_best]


def written_out(world: World, search, n: int = 1) -> list[Found]:
    """The answers of any search, best first."""
    if search is None:
        return sample(world, n)
    if hasattr(search, "phrases"):
        return constrained(world, search)
    return stochastic(world, search) if hasattr(search, "k") else beams(world, search)
