"""What a search finds on the toy engine."""

from __future__ import annotations

import numpy as np
from toy_engine import make_engine

from unspool.params import DecodingParams
from unspool.runners.toy import ToyRunner
from unspool.types import Request

PROMPT = (1, 2, 3)


def params(**changes):
    return DecodingParams(**{"max_tokens": 6, "logprobs": 0, **changes})


def answers_of(search, prompt=PROMPT, asked=None, **settings):
    """{rank: events} of one request alone."""
    engine = make_engine(**{"n_pages": 64, **settings})
    engine.add(Request(tuple(prompt), asked or params(), search=search))
    heard: dict[int, list] = {}
    while not engine.is_idle:
        for event in engine.step():
            heard.setdefault(event.branch, []).append(event)
        engine.check()
    return heard


def found(search, prompt=PROMPT, asked=None, **settings):
    """[(token ids with the end, score)] of the answers, best first."""
    heard = answers_of(search, prompt, params(include_stop=True, **(asked or {})), **settings)
    return [
        (tuple(i for event in events for i in event.token_ids), events[-1].score)
        for _, events in sorted(heard.items())
    ]


def logprobs_after(token_ids):
    """The toy's own log-probabilities (V,) after a text."""
    z = ToyRunner().logits_of(list(token_ids)).astype(np.float64)
    return z - z.max() - np.log(np.exp(z - z.max()).sum())
