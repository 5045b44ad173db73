"""How engines read the same parameters differently, where the order alone does not say it.

A preset of `order` takes that engine's conventions with it; a list of stages is read by our own, or by those
of the preset that it begins with. Stages ask for the rule and never for the engine. What each preset
reproduces, and what it does not, is said at its line of `CONVENTIONS`;
tests/unit/logits/test_presets_against_engines.py holds the first against recorded values.

The same in every preset: masses and shares are compared with a slack of 1e-6, which the engines' float32
decides by chance; equal logits are ordered by token id, where the engines leave the order to their sort;
temperature 0 takes the largest logit of what masks, penalties and bias leave; draws are ours, because no
engine's random numbers can be had without its batch, its kernels and its history of draws.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from unspool.light_dataclass import dataclass
from unspool.param_conflicts import preset_of
from unspool.params import DecodingParams

Scope = Literal["all", "prompt", "output"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conventions:
    """What a stage has to know beside its parameters. The defaults are unspool's own."""

    # Truncation
    top_k_keeps_ties: bool = False  # all that equal the k-th largest stay, so that more than k may
    typical_keeps_ties: bool = False  # all as far from the entropy as the last one that is needed stay
    typical_passes_mass: bool = False  # the mass has to be above typical_p; reaching it is not enough
    top_h_candidates: int | None = None  # entropy and its sum look at the first so many only; None is all
    cutoffs_keep_tied_tops: bool = False  # epsilon, eta: all that equal the largest stay; else the first
    xtc_spares_ends: bool = True  # XTC leaves ends of the text and newlines in
    mirostat_surprise_after_cut: bool = False  # S from the renormalised survivors, so that mu drifts upwards
    # Penalties, as long as the request says nothing itself
    repetition_scope: Scope = "all"
    additive_scope: Scope = "output"  # frequency and presence
    penalty_window: int | None = None  # the last so many tokens of the scope; None is all of it
    dry_window: int | None = None


CONVENTIONS: Final[Mapping[str, Conventions]] = {
    "unspool": Conventions(),
    # Exact: order, ties of top-k, top-p's crossing token, min-p after temperature, scopes of the penalties.
    # Not: temperatures in (0, 0.01), which its front end raises to 0.01 (`from_vllm` does it).
    "vllm": Conventions(top_k_keeps_ties=True),
    # Exact: order, ties of top-k, typical and the cutoffs, top-h's hundred, repetition in prompt and answer.
    # Not: beams, where it penalises log-probabilities instead of logits; top_h=1, which is off here and keeps
    # the first hundred there.
    "transformers": Conventions(
        top_k_keeps_ties=True,
        typical_keeps_ties=True,
        top_h_candidates=100,
        cutoffs_keep_tied_tops=True,
    ),
    # Exact: order with temperature last, all penalties over the last 64 tokens of prompt and answer, DRY over
    # the last 64, typical's strict crossing, XTC without exceptions, mirostat's surprise after the cut.
    # Not: candidates that top-n-sigma or a ban has set to -inf still count as candidates there (dynamic
    # temperature's n, mirostat 1's, and typical then has no number for an entropy); typical and XTC act at
    # temperature 0 too; the ways in which several tokens may spell a breaker; a grammar that is looked at
    # after the draw.
    "llama.cpp": Conventions(
        typical_passes_mass=True,
        xtc_spares_ends=False,
        mirostat_surprise_after_cut=True,
        additive_scope="all",
        penalty_window=64,
        dry_window=64,
    ),
}


def conventions_of(params: DecodingParams) -> Conventions:
    """Those of the preset that `order` names; an order written out without one is read by our own."""
    return CONVENTIONS[preset_of(params.order)]


def scope_of(penalty: str, params: DecodingParams) -> Scope:
    """What "repetition", "frequency" or "presence" looks at: the request's word, or the preset's."""
    if params.penalty_scope != "default":
        return params.penalty_scope
    conventions = conventions_of(params)
    return conventions.repetition_scope if penalty == "repetition" else conventions.additive_scope


def penalty_window_of(params: DecodingParams) -> int | None:
    """How many of the last tokens of the scope count; None is all."""
    return conventions_of(params).penalty_window if params.penalty_window is None else params.penalty_window


def dry_window_of(params: DecodingParams) -> int | None:
    """How many of the last tokens DRY looks at; None is all."""
    return conventions_of(params).dry_window if params.dry_window is None else params.dry_window
