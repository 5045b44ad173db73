"""Random requests of every kind, and a search that forks, drops and finishes as its rows say."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from unspool.params import DecodingParams
from unspool.search.base import Advance
from unspool.search.beam import Beam
from unspool.types import Chosen, Drop, Extend, Finish, Fork, Processed, Request, Row


@dataclass(frozen=True)
class ScriptedSearch:
    """Like a beam: what it does next is a hash of its hypotheses and their likeliest tokens, nothing else."""

    max_branches: int
    n_first: int = 1
    n_answers: int = 1
    forks_later: bool = True
    wants_candidates: bool = True
    n_candidates: int | None = None
    is_ranked: bool = False
    draws: bool = True

    def check(self, params):
        """Everything has a meaning here."""

    def start(self):
        return 0

    def advance(self, state: int, rows: list[Row], processed: list[Processed]):
        position = rows[0].position
        live = [row.branch for row in rows]
        moves = []
        grown = set()
        for row in rows:
            lot = zlib.crc32(np.array([row.branch, *row.token_ids], "<i4").tobytes()) % 16
            if lot == 0 and len(live) > 1:
                moves.append(Drop(row.branch))
                live.remove(row.branch)
                grown.add(row.branch)
            elif lot == 1 and position > row.n_prompt + 3:
                moves.append(Finish(row.branch, "stop"))
                grown.add(row.branch)
                live.remove(row.branch)
        for row, made in zip(rows, processed, strict=True):
            if row.branch in grown:
                continue
            digest = zlib.crc32(np.array([*row.token_ids, row.branch], "<i4").tobytes())
            lot = digest % 4
            ids = made.candidates.token_ids[np.argsort(-made.candidates.logits, kind="stable")]
            if lot < 2 and len(live) < self.max_branches:
                child = 1 + (digest >> 2)  # no branch had it before
                moves += [Fork(row.branch, child), Extend(child, (Chosen(int(ids[-1])),))]
                live.append(child)
            tokens = (made.chosen, Chosen(int(ids[0]))) if lot == 2 else (made.chosen,)
            moves.append(Extend(row.branch, tokens))
        return Advance(state + 1, tuple(moves))


KINDS = (
    {},
    {},
    {"top_k": 3, "min_p": 0.05},
    {"top_p": 0.8, "repetition_penalty": 1.3, "frequency_penalty": 0.2},
    {"xtc_probability": 0.5, "xtc_threshold": 0.05},
    {"dry_multiplier": 0.8, "dry_allowed_length": 1},
    {"mirostat": 1},
    {"mirostat": 2, "mirostat_tau": 2.0},
    {"adaptive_target": 0.4},
    {"no_repeat_ngram_size": 3, "presence_penalty": 0.5},
    {"loop_min_count": 2, "loop_max_length": 3},
    {"typical_p": 0.7, "penalty_window": 4, "repetition_penalty": 1.2},
)


# What a beam may be asked for: nothing that is there for draws.
PENALTIES = tuple(
    {"temperature": 0.0, **kind}
    for kind in ({}, {"repetition_penalty": 1.3}, {"no_repeat_ngram_size": 2}, {"dry_multiplier": 0.5})
)


@dataclass(frozen=True)
class Sizes:
    """How large requests get, and the texts that end them."""

    n_vocab: int
    n_prompt: int
    n_new: int
    stops: tuple[str, ...] = ("ba", "aab")
    patterns: tuple[str, ...] = ("a+b", r"b.?a")


def random_params(rng: np.random.Generator, sizes: Sizes, kinds=KINDS) -> DecodingParams:
    n_new = int(rng.integers(1, sizes.n_new + 1))
    kind = dict(kinds[rng.integers(len(kinds))])
    if rng.random() < 0.08:  # the masks leave nothing after a while
        few = sorted({int(i) for i in rng.integers(1, sizes.n_vocab, 2)})
        kind |= {"allowed_token_ids": few, "no_repeat_ngram_size": 1}
    return DecodingParams(
        **{"temperature": float(rng.choice([0, 0.7, 1.0, 1.5])), **kind},
        seed=int(rng.integers(2**63)),
        min_tokens=int(rng.integers(n_new + 1)) if rng.random() < 0.3 else 0,
        max_tokens=n_new,
        stop=sizes.stops if rng.random() < 0.3 else (),
        stop_regex=sizes.patterns if rng.random() < 0.2 else (),
        include_stop=bool(rng.random() < 0.3),
        ignore_eos=bool(rng.random() < 0.5),
        logprobs=int(rng.integers(3)) if rng.random() < 0.5 else None,
        prompt_logprobs=1 if rng.random() < 0.15 else None,
        deadline_s=float(rng.integers(1, 60)) if rng.random() < 0.1 else None,
        trace=bool(rng.random() < 0.05),
    )


def random_companions(rng: np.random.Generator, sizes: Sizes, has_amateur: bool) -> dict:
    """Parameters that have a second opinion on each token, or none."""
    kind = {}
    if rng.random() < 0.25:
        kind["guidance_scale"] = float(rng.choice([0, 0.5, 1.5, 3]))
        if rng.random() < 0.6:
            n_tokens = int(rng.integers(1, sizes.n_prompt + 1))
            kind["negative_prompt"] = rng.integers(1, sizes.n_vocab, n_tokens).tolist()
    if has_amateur and rng.random() < 0.25:
        kind |= {
            "contrast_beta": float(rng.choice([0.5, 2])),
            "contrast_alpha": float(rng.choice([0, 0.1, 0.5])),
        }
    return kind


def random_request(
    rng: np.random.Generator, sizes: Sizes, prompt: tuple[int, ...], has_amateur: bool = False
) -> Request:
    """A request: samples, a beam or a scripted search; often guided, and contrasted where that can be."""
    lot, n = rng.random(), int(rng.choice([1, 1, 1, 2, 3]))
    search: ScriptedSearch | Beam | None = None
    params = random_params(rng, sizes)
    if lot < 0.15:
        search = ScriptedSearch(max_branches=n + 1)
    elif lot < 0.3:
        stopping = (True, False, "never", "exact")[rng.integers(4)]
        search = Beam(width=n + 1, n_best=int(rng.integers(1, n + 2)), early_stopping=stopping)
        params = random_params(rng, sizes, PENALTIES).replace(seed=None)
    params = params.replace(**random_companions(rng, sizes, has_amateur))
    return Request(
        prompt,
        params,
        n=1 if search else n,
        priority=int(rng.integers(-1, 2)),
        salt=str(rng.integers(2)) if rng.random() < 0.3 else None,
        use_cache=bool(rng.random() < 0.9),
        first_branch=0 if search or rng.random() < 0.8 else int(rng.integers(1, 9)),
        search=search,
    )
