"""What the stages did to the candidates of one token: plain values, for people and programs to read.

Probabilities are of the survivors at that point, entropies in bits. `logits.tracing` makes these.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

import numpy as np

from unspool.light_dataclass import dataclass

SURVIVED: Final = 255  # in TokenTrace.fates; no request has so many stages
NEVER_ALIVE: Final = 254


@dataclass(frozen=True, slots=True)
class Removed:
    """A candidate that a stage took out."""

    token_id: int
    text: str
    prob: float  # just before


@dataclass(frozen=True, slots=True)
class Moved:
    """A candidate whose logit a stage changed."""

    token_id: int
    text: str
    prob_before: float
    prob_after: float
    logit_change: float


@dataclass(frozen=True, slots=True)
class StageTrace:
    """One stage at one token."""

    stage: str
    n_before: int  # survivors
    n_after: int
    removed_mass: float  # the probability, just before, of those it took out
    entropy_before_bits: float
    entropy_after_bits: float
    temperature: float | None  # the T by which logits were divided; None where it is no division
    removed: tuple[Removed, ...]  # the likeliest few; TokenTrace.removed_ids has all
    moved: tuple[Moved, ...]  # the few whose probability changed most, of those whose logit changed

    @property
    def n_removed(self) -> int:
        return self.n_before - self.n_after


@dataclass(frozen=True, slots=True)
class CandidatePath:
    """One candidate's probability through the stages: before the first, then after each."""

    token_id: int
    text: str
    probs: tuple[float, ...]  # (n_stages + 1,); 0 from the stage on that took it out

    @property
    def prob(self) -> float:
        return self.probs[0]

    @property
    def prob_final(self) -> float:
        return self.probs[-1]


@dataclass(frozen=True, slots=True)
class TokenTrace:
    """Everything that led to one token."""

    position: int  # of the token, absolute: the prompt counts
    chosen: CandidatePath
    n_candidates: int  # before the first stage
    n_survivors: int  # after the last
    entropy_bits: float
    entropy_final_bits: float
    stages: tuple[StageTrace, ...]
    candidates: tuple[CandidatePath, ...]  # the likeliest at first and at last, likeliest at first first
    matches: bool  # the survivors here are those among which the engine, in its own single pass, chose
    fates: bytes = field(repr=False)  # (V,) by token id: the index of the stage that took it out, or SURVIVED

    def removed_ids(self, stage_index: int) -> list[int]:
        """All token ids that a stage took out, ascending."""
        ids: list[int] = np.flatnonzero(np.frombuffer(self.fates, np.uint8) == stage_index).tolist()
        return ids

    def survivor_ids(self) -> list[int]:
        """The token ids left after the last stage, ascending."""
        return self.removed_ids(SURVIVED)

    def removed_by(self, token_id: int) -> str | None:
        """The stage that took a token out; None for a survivor."""
        fate = self.fates[token_id]
        return None if fate in (SURVIVED, NEVER_ALIVE) else self.stages[fate].stage
