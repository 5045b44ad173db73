"""A model that writes what it is told to, and the distribution that a request draws from."""

from __future__ import annotations

import numpy as np
from toy_engine import Told, ToyVocabulary, drain

from unspool.engine.engine import Engine
from unspool.logits import pipeline
from unspool.params import DecodingParams
from unspool.rng import fresh_seed
from unspool.runners.toy import ToyRunner
from unspool.types import Request, Row

PROMPT = (0,)


class ScriptedRunner(ToyRunner):
    """Its likeliest token is the next of the script, and token 0 when that has ended.

    `certainty` is how far the logit of that token is above the others, which are all the same.
    """

    def __init__(self, script, vocabulary, *, certainty=20.0, n_prompt=1):
        super().__init__(vocab_size=vocabulary.vocab_size, context_length=1024, n_pages=512)
        self.script, self.certainty, self.n_prompt = list(script), certainty, n_prompt

    def logits_of(self, token_ids):
        n_written = len(token_ids) - self.n_prompt
        logits = np.zeros(self.vocab_size, dtype=np.float32)
        logits[self.script[n_written] if n_written < len(self.script) else 0] = self.certainty
        return logits


def vocabulary_of(*pieces: bytes | str) -> ToyVocabulary:
    """Token 0 ends the text; the pieces are tokens 1, 2, ..."""
    tokens = [piece.encode() if isinstance(piece, str) else piece for piece in pieces]
    return ToyVocabulary([b"</s>", *tokens], ends=(0,))


def write(script, vocabulary, *, prompt=PROMPT, **params) -> Told:
    """What a request tells when the model wants to write a script; greedy unless params say otherwise."""
    runner = ScriptedRunner(script, vocabulary, n_prompt=len(prompt))
    engine = Engine(runner, vocabulary)
    asked = DecodingParams(**{"temperature": 0, "max_tokens": None, **params})
    told = {engine.add(Request(tuple(prompt), asked)): Told()}
    drain(engine, told)
    (only,) = told.values()
    return only


def distribution(p, *, history=(), n_prompt=0, process=pipeline.process, **params) -> dict[int, float]:
    """The distribution drawn from: survivors and their probabilities, for probabilities p of a model."""
    with np.errstate(divide="ignore"):
        z = np.log(np.asarray(p, dtype=np.float64)).astype(np.float32)
    row = Row(DecodingParams(**params), fresh_seed(), 0, list(history), n_prompt, wants_candidates=True)
    (processed,) = process(z[None], [row])
    if isinstance(processed, Exception):
        raise processed
    logits = processed.candidates.logits
    weights = np.exp(logits - logits.max())
    return dict(zip(processed.candidates.token_ids.tolist(), (weights / weights.sum()).tolist(), strict=True))
