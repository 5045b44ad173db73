"""What an evaluation asks, and what it keeps of each answer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from unspool.light_dataclass import dataclass
from unspool.types import Completion, FinishReason

# One answer at temperature 0 | n answers that are drawn | the best answer of a search.
Series = Literal["greedy", "sample", "search"]
Marks: TypeAlias = Mapping[str, Any]  # what the judge of a benchmark says of an answer; JSON values


@dataclass(frozen=True, slots=True)
class Question:
    """One problem, ready to be asked."""

    name: str  # unique in its benchmark
    prompt_ids: tuple[int, ...]
    judge: Callable[[Completion], Marks]  # keeps no state: the same text has the same marks


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer to a problem, and what the judge said of it."""

    question: str
    series: Series
    branch: int  # which of the n it is; with the seed it repeats the answer
    text: str
    finish_reason: FinishReason
    n_tokens: int
    marks: Marks


def seed_of(seed: int, question: str) -> int:
    """A seed of its own for each problem.

    A draw is a function of seed, branch, position and token. Under one seed all problems would share their
    noise where their positions meet, and intervals, which take problems to be independent, would be wrong.
    """
    digest = hashlib.sha256(f"{seed}/{question}".encode()).digest()
    return int.from_bytes(digest[:8], "little")
