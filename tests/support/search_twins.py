"""Every search written out on lists of tokens: no pages, no forks, nothing kept from step to step.

A text is looked at from its start whenever something is asked about it. The toy's logits go through the same
stages as in the engine (`process_by_stages`, from whole texts), and everything after that is written here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from second_opinions import combined_after
from toy_engine import LETTERS, ToyVocabulary

from unspool.engine.rules import rules_of
from unspool.history import History
from unspool.history.running import learns
from unspool.logits import pipeline
from unspool.params import DecodingParams
from unspool.rng import Noise
from unspool.rules import Rules
from unspool.search.length_norm import LengthNorm
from unspool.types import Row


@dataclass(frozen=True)
class Found:
    """An answer as a caller sees it."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: str
    stop: str | int | None
    score: float | None
    logprobs: tuple[float, ...]  # of token_ids, among the survivors


@dataclass(frozen=True)
class Text:
    """A hypothesis: the answer's tokens so far, and what they are worth."""

    branch: int = 0
    ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    rank: float = 0.0
    score: float = 0.0

    @property
    def total(self) -> float:
        return sum(self.logprobs)


@dataclass(frozen=True)
class World:
    """A prompt, what is asked of it, and the toy that goes on with it."""

    prompt: tuple[int, ...]
    params: DecodingParams
    n_max: int
    n_steps: int = 10**9  # after so many the search is ended from outside,
    cut_reason: str = "cancelled"  # for this reason
    vocabulary: ToyVocabulary = LETTERS

    def processed(self, text: Text):
        params = self.params
        rules = rules_of(params, self.vocabulary, n_vocab=self.vocabulary.vocab_size)
        z = combined_after(self.prompt, text.ids, params)
        ids = [*self.prompt, *text.ids]
        row = Row(
            *(params, params.seed or 0, text.branch, ids, len(self.prompt), rules),
            history=self.learned(text.ids, rules) if learns(params) else None,
            wants_candidates=True,
        )
        (made,) = pipeline.process_by_stages(z[None], [row])
        if isinstance(made, Exception):
            raise made
        return made

    def learned(self, token_ids: tuple[int, ...], rules: Rules) -> History:
        """What a stage that learns has made of each token, from the start."""
        prompt, params = self.prompt, self.params
        history = History(params, rules, prompt)
        for n, token_id in enumerate(token_ids):
            row = Row(params, 0, 0, [*prompt, *token_ids[:n]], len(prompt), rules, history)
            z = combined_after(prompt, token_ids[:n], params).astype(np.float64)
            history.accept(token_id, pipeline.observed(pipeline.walk(z, row), row, token_id))
        return history

    def next_logprobs(self, text: Text) -> dict[int, float]:
        """Of the tokens that may follow, among themselves."""
        candidates = self.processed(text).candidates
        z = candidates.logits - candidates.logits.max()
        logprobs = z - np.log(np.exp(z).sum())
        return dict(zip(candidates.token_ids.tolist(), logprobs.tolist(), strict=True))

    def noise(self, text: Text, name: str) -> dict[int, float]:
        """Gumbel noise of every token after a text; none at temperature 0."""
        if self.params.is_greedy:
            return dict.fromkeys(range(self.vocabulary.vocab_size), 0.0)
        noise = Noise(self.params.seed, text.branch, len(self.prompt) + len(text.ids), name)
        return dict(enumerate(noise.gumbel(np.arange(self.vocabulary.vocab_size)).tolist()))

    def is_end(self, ids: tuple[int, ...]) -> bool:
        return len(ids) == self.n_max or self.ending(ids) is not None

    def ending(self, ids: tuple[int, ...]) -> tuple[str | int, int, int] | None:
        """(what ended the text, bytes that stay, tokens that stay), if the last token ends it."""
        params, token_bytes = self.params, self.vocabulary.token_bytes
        ends = set(params.stop_token_ids) | (set() if params.ignore_eos else self.vocabulary.eos_ids)
        before = b"".join(map(token_bytes, ids[:-1]))
        data = before + token_bytes(ids[-1])
        if ids[-1] in ends:
            keep = params.include_stop
            return ids[-1], len(data if keep else before), len(ids) - (not keep)
        if len(ids) < params.min_tokens:
            return None
        for n in range(len(before) + 1, len(data) + 1):
            complete = [stop for stop in params.stop if data[:n].endswith(stop.encode())]
            if complete:
                stop = max(complete, key=lambda s: len(s.encode()))
                cut = n if params.include_stop else n - len(stop.encode())
                starts = np.cumsum([0, *(len(token_bytes(i)) for i in ids)])
                stays = (starts[:-1] < cut) | (starts[1:] <= cut)  # one without bytes is where it is
                return stop, cut, int(stays.sum())
        return None

    def told(self, text: Text, *, score: float | None, is_cut: bool = False) -> Found:
        """A hypothesis as an answer."""
        data = b"".join(map(self.vocabulary.token_bytes, text.ids))
        stop, n_bytes, n_tokens, reason = None, len(data), len(text.ids), "length"
        if is_cut:
            reason = self.cut_reason
        elif (ending := self.ending(text.ids)) is not None:
            (stop, n_bytes, n_tokens), reason = ending, "stop"
        shown = data[:n_bytes].decode(errors="replace")
        return Found(shown, text.ids[:n_tokens], reason, stop, score, text.logprobs[:n_tokens])


def grown(text: Text, token_id: int, logprob: float, **changes) -> Text:
    return replace(text, ids=(*text.ids, token_id), logprobs=(*text.logprobs, logprob), **changes)


def sample(world: World, n: int) -> list[Found]:
    """Each answer alone, from its branch's noise."""
    answers = []
    for branch in range(n):
        text, n_steps = Text(branch), 0
        while n_steps < world.n_steps and not (text.ids and world.is_end(text.ids)):
            token_id = world.processed(text).chosen.token_id
            text = grown(text, token_id, world.next_logprobs(text)[token_id])
            n_steps += 1
        answers.append(world.told(text, score=None, is_cut=not (text.ids and world.is_end(text.ids))))
    return answers


def named(n_born: int, continuing: list[tuple[Text, int, float, float]]) -> list[Text]:
    """Texts with one more token: the first to go on from a branch keeps its number, others get new ones."""
    seen: set[int] = set()
    texts: list[Text] = []
    n_new = 0
    for text, token_id, logprob, rank in continuing:
        branch = text.branch
        if branch in seen:
            branch, n_new = n_born + n_new, n_new + 1
        seen.add(text.branch)
        texts.append(grown(text, token_id, logprob, rank=rank, branch=branch))
    return texts


def beams(world: World, search) -> list[Found]:
    """Plain and diverse beams, and beam sampling."""
    n_groups, strength = getattr(search, "groups", 1), getattr(search, "strength", 0.0)
    is_drawn = type(search).__name__ == "BeamSample"
    width, norm = search.width // n_groups, LengthNorm(search.length_norm, search.alpha)
    live = [[Text()] for _ in range(n_groups)]
    pools: list[list[Text]] = [[] for _ in range(n_groups)]
    n_born, n = 1, 0
    while any(live) and n < world.n_steps:
        n += 1
        taken: Counter[int] = Counter()
        going_on: list[list[tuple[Text, int, float, float]]] = []
        for g, texts in enumerate(live):
            order = []
            for i, text in enumerate(texts):
                noise = world.noise(text, "beam_sample") if is_drawn else {}
                for token_id, logprob in world.next_logprobs(text).items():
                    value = text.total if is_drawn else text.rank
                    value += logprob + noise.get(token_id, 0.0) - strength * taken[token_id]
                    order.append((-value, i, token_id, logprob))
            order.sort()
            grown_of = [(texts[i], t, lp, -v) for v, i, t, lp in order]
            ends = [world.is_end((*text.ids, t)) for text, t, _, _ in grown_of]
            is_full = search.early_stopping is True and len(pools[g]) == width
            for (text, t, lp, _), e in zip(grown_of[:width], ends, strict=False):
                if e and not is_full:
                    pools[g].append(grown(text, t, lp, branch=n_born, score=(text.total + lp) / norm(n)))
                    n_born += 1
            pools[g] = sorted(pools[g], key=lambda h: -h.score)[:width]
            chosen = [each for each, e in zip(grown_of, ends, strict=True) if not e][:width]
            totals = sorted((text.total + lp for text, _, lp, _ in chosen), reverse=True)
            if len(pools[g]) == width and chosen and has_enough(search, world, norm, pools[g], totals, n):
                chosen = []
            taken.update(t for _, t, _, _ in chosen)
            going_on.append(chosen)
        flat = named(n_born, [each for chosen in going_on for each in chosen])
        n_born += len(flat)
        live = [[flat.pop(0) for _ in chosen] for chosen in going_on]
    ended = sorted((h for pool in pools for h in pool), key=lambda h: -h.score)
    answers = [world.told(text, score=text.score) for text in ended]
    rest = {text.branch: text for texts in live for text in texts}  # at first all groups have the same
    for text in sorted(rest.values(), key=lambda h: -h.total):
        answers.append(world.told(text, score=text.total / norm(max(n, 1)), is_cut=True))
    return answers[: search.n_best]


def has_enough(search, world, norm, pool, totals, n) -> bool:
    worst = pool[-1].score
    if search.early_stopping is True:
        return True
    if search.early_stopping == "exact":
        longer = range(n + 1, world.n_max + 1)
        return all(max(total / norm(m) for m in longer) <= worst for total in totals)
    is_longest = search.early_stopping == "never" and search.alpha > 0
    return totals[0] / norm(world.n_max if is_longest else n) <= worst


def stochastic(world: World, search) -> list[Found]:
    """The k largest of all perturbed log-probabilities, found from the top down, as in the paper."""
    live, ended, n_born, n = [Text()], list[Text](), 1, 0
    while live and n < world.n_steps:
        n += 1
        order = [(text.rank, "ended", text, 0, 0.0) for text in ended]
        for text in live:
            noise, logprobs = world.noise(text, "stochastic_beam"), world.next_logprobs(text)
            free = {t: text.total + lp + noise[t] for t, lp in logprobs.items()}
            largest = max(free.values())
            for t, lp in logprobs.items():
                rank = free[t]
                if text.ids and not world.params.is_greedy:
                    if free[t] == largest:
                        rank = text.rank
                    else:
                        inner = np.exp(-text.rank) - np.exp(-largest) + np.exp(-free[t])
                        rank = -np.log(inner)
                order.append((rank, "new", text, t, lp))
        order.sort(key=lambda each: -each[0])
        best, ended, chosen = order[: search.k], [], []
        for rank, kind, text, t, lp in best:
            if kind == "ended":
                ended.append(text)
            elif world.is_end((*text.ids, t)):
                ended.append(grown(text, t, lp, rank=rank, score=text.total + lp, branch=-1))
                n_born += 1
            else:
                chosen.append((text, t, lp, rank))
        live = named(n_born, chosen)
        n_born += len(live)
    told = [(h.rank, world.told(h, score=h.score)) for h in ended]
    told += [(h.rank, world.told(h, score=h.total, is_cut=True)) for h in live]
    return [found for _, found in sorted(told, key=lambda each: -each[0])]
