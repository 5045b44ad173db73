"""An engine on the toy runner, and what a request gives in it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unspool.engine.engine import Engine
from unspool.engine.limits import Limits
from unspool.params import DecodingParams
from unspool.runners.toy import ToyRunner
from unspool.types import Event, Request


class ToyVocabulary:
    """Tokens as given; `ends` are its end-of-sequence ids and add nothing to the text."""

    def __init__(self, tokens: list[bytes], ends: tuple[int, ...] = ()) -> None:
        self.tokens = tokens
        self.vocab_size = len(tokens)
        self.eos_ids = frozenset(ends)

    def token_bytes(self, token_id: int) -> bytes:
        return b"" if token_id in self.eos_ids else self.tokens[token_id]

    def all_token_bytes(self) -> tuple[bytes, np.ndarray]:
        each = [self.token_bytes(token_id) for token_id in range(self.vocab_size)]
        return b"".join(each), np.cumsum([0, *map(len, each)])

    def encode(self, text: str, *, add_bos: bool = True) -> list[int]:
        """The longest token that goes on with the text, again and again; bytes without one are left out."""
        data, ids = text.encode(), []
        while data:
            fits = [i for i, token in enumerate(self.tokens) if i not in self.eos_ids and token]
            fits = [i for i in fits if data.startswith(self.tokens[i])]
            best = max(fits, key=lambda i: len(self.tokens[i]), default=None)
            ids += [] if best is None else [best]
            data = data[1 if best is None else len(self.tokens[best]) :]
        return ids

    def token_text(self, token_id: int) -> str:
        return self.tokens[token_id].decode("utf-8", "backslashreplace")


LETTERS = ToyVocabulary([b"</s>", b"a", b"b", b"ab", b" ", b"\xe4\xb8", b"\x96", b"\n"], ends=(0,))


class ToyAmateur(ToyRunner):
    """Another model of the same tokens: what it says of a text has nothing to do with what the toy says."""

    def logits_of(self, token_ids):
        return super().logits_of([*token_ids, -1])


@dataclass
class Told:
    """What the events of one request add up to."""

    text: str = ""
    token_ids: tuple[int, ...] = ()
    last: Event | None = None
    deltas: list[str] = field(default_factory=list)

    def hear(self, event: Event) -> None:
        assert self.last is None, "an event after the last one"
        self.text += event.text
        self.token_ids += event.token_ids
        self.deltas.append(event.text)
        if event.finish_reason is not None:
            self.last = event

    @property
    def result(self) -> tuple:
        return self.text, self.token_ids, self.last.finish_reason, self.last.stop


def make_engine(
    *,
    n_rows: int = 512,
    n_tasks: int = 64,
    logits_bytes: int = 32 << 20,
    vocabulary=LETTERS,
    amateur=None,
    **runner,
) -> Engine:
    limits = Limits(
        n_rows=n_rows,
        n_tasks=min(n_tasks, n_rows),
        logits_bytes=logits_bytes,
        max_slowdown=float("inf"),  # how much of a prompt is read is not to depend on a clock
    )
    runner = ToyRunner(**{"vocab_size": vocabulary.vocab_size, **runner})
    return Engine(runner, vocabulary, limits=limits, amateur=amateur)


def run(engine: Engine, prompts_and_params) -> list[Told]:
    """All requests at once, to their ends, checking the pool after every step."""
    told = {}
    for prompt, params in prompts_and_params:
        told[engine.add(Request(tuple(prompt), params))] = Told()
    drain(engine, told)
    return list(told.values())


def drain(engine: Engine, told: dict[int, Told]) -> None:
    while not engine.is_idle:
        for event in engine.step():
            told[event.request_id].hear(event)
        engine.check()


def alone(prompt, params: DecodingParams, **settings) -> Told:
    """One request on an engine of its own."""
    return run(make_engine(**settings), [(prompt, params)])[0]
