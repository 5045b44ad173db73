"""A person at the terminal."""

from __future__ import annotations

import sys
from typing import Final, TextIO

from unspool.errors import VerifierError
from unspool.light_dataclass import dataclass
from unspool.search.verifiers.base import Alone, Verdict
from unspool.search.verifiers.settings import check_has
from unspool.types import Completion

_WORDS: Final = {"y": True, "yes": True, "n": False, "no": False}
_QUESTION: Final = "good? [y, n, or a score from 0 to 10] "


@dataclass(frozen=True, slots=True)
class Person(Alone):
    """Shows each answer on standard error and reads what a person thinks of it from standard input.

    y accepts and n refuses, as 10 and 0 do; a number in between is a score. The score is a tenth of it.
    """

    reads: TextIO | None = None  # standard input when left out
    shows: TextIO | None = None  # standard error when left out

    def __post_init__(self) -> None:
        check_has("reads", self.reads, "readline", "a file to read from")
        check_has("shows", self.shows, "write", "a file to write to")

    def __call__(self, prompt: str, completion: Completion) -> Verdict:
        shows = sys.stderr if self.shows is None else self.shows
        reads = sys.stdin if self.reads is None else self.reads
        if reads is None or shows is None:
            raise VerifierError("there is no terminal to ask a person at")
        print(f"\n{_shown(completion.text)}\n", file=shows)
        while True:
            print(_QUESTION, end="", file=shows, flush=True)
            line = reads.readline()
            if not line:
                raise VerifierError("the person's input has ended; nobody judged this answer")
            score = _score(line.strip().lower())
            if score is not None:
                return Verdict(score, True if score == 1 else False if score == 0 else None)


def _score(said: str) -> float | None:
    if said in _WORDS:
        return float(_WORDS[said])
    try:
        value = float(said)
    except ValueError:
        return None
    return value / 10 if 0 <= value <= 10 else None


def _shown(text: str) -> str:
    """Text that cannot drive the terminal."""
    return "".join(c if c in "\n\t" or c.isprintable() else c.encode("unicode_escape").decode() for c in text)
