"""Rotary position frequencies and the ways of stretching them to longer contexts.

Su et al. 2021 (arXiv 2104.09864) rotate pair i of a head at position p by p * base**(-2i/n). Each
scaling below is one small dataclass that turns these frequencies into others; a few also ask for
a magnitude, a factor on the rotated q and k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field, replace

import numpy as np
import numpy.typing as npt

from unspool.light_dataclass import dataclass

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rotary:
    """The rotation of one kind of layer: what ops.Rope needs besides the head's size.

    How it was made is for who writes it to a file; two that rotate alike are equal.
    """

    inv_freq: tuple[float, ...]  # (n/2,) radians a position
    magnitude: float = 1.0
    base: float | None = field(default=None, compare=False, repr=False)
    scaling: Scaling | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class LinearScaling:
    """All frequencies divided by one factor (Chen et al. 2023, arXiv 2306.15595)."""

    factor: float

    def rotary(self, base: float, n_rotated: int) -> Rotary:
        return _rotary(frequencies(base, n_rotated) / self.factor)


@dataclass(frozen=True, slots=True)
class Llama3Scaling:
    """Slow frequencies divided by factor, fast ones kept, a linear blend between (Llama 3.1, 2024).

    With c turns over the original context, a pair counts as slow below low_freq_factor turns and as
    fast above high_freq_factor.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_context_length: int

    def rotary(self, base: float, n_rotated: int) -> Rotary:
        inv_freq = frequencies(base, n_rotated)
        turns = self.original_context_length * inv_freq / (2 * math.pi)
        # 0 where slow, 1 where fast; equal bounds make it a step, as the limit of the blend does.
        span = max(self.high_freq_factor - self.low_freq_factor, 1e-9)
        keep = np.clip((turns - self.low_freq_factor) / span, 0.0, 1.0)
        return _rotary(inv_freq * (keep + (1 - keep) / self.factor))


@dataclass(frozen=True, slots=True)
class YarnScaling:
    """Frequencies blended by the turns they make over the original context (YaRN, arXiv 2309.00071).

    Pairs of more than beta_fast turns keep their frequency, those of fewer than beta_slow turns are
    divided by factor, with a linear ramp over the pair's index between. `truncate` rounds the ends of
    the ramp outwards to whole indices. `magnitude` None takes the paper's 0.1 ln(factor) + 1.
    """

    factor: float
    original_context_length: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    magnitude: float | None = None
    truncate: bool = True

    def rotary(self, base: float, n_rotated: int) -> Rotary:
        inv_freq = frequencies(base, n_rotated)
        first = self._index_of_turns(self.beta_fast, base, n_rotated)
        last = self._index_of_turns(self.beta_slow, base, n_rotated)
        if self.truncate:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, n_rotated - 1)
        ramp = (np.arange(n_rotated // 2) - first) / max(last - first, 0.001)
        slow = np.clip(ramp, 0.0, 1.0)  # 0 keeps, 1 divides
        magnitude = yarn_magnitude(self.factor) if self.magnitude is None else self.magnitude
        return _rotary(inv_freq * (1 - slow) + inv_freq / self.factor * slow, magnitude)

    def _index_of_turns(self, n_turns: float, base: float, n_rotated: int) -> float:
        """The (fractional) pair that makes n_turns over the original context: solves
        context * base**(-2i/n) = 2 pi n_turns for i."""
        ratio = self.original_context_length / (n_turns * 2 * math.pi)
        return n_rotated * math.log(ratio) / (2 * math.log(base))


Scaling = LinearScaling | Llama3Scaling | YarnScaling


def frequencies(base: float, n_rotated: int) -> F64:
    """base**(-2i/n) for the n/2 pairs of the n_rotated values of a head."""
    inv_freq: F64 = base ** (-np.arange(0, n_rotated, 2, dtype=np.float64) / n_rotated)  # (n/2,)
    return inv_freq


def rotary(base: float, n_rotated: int, scaling: Scaling | None = None) -> Rotary:
    """The rotation with the given base, stretched by `scaling` when there is one."""
    made = _rotary(frequencies(base, n_rotated)) if scaling is None else scaling.rotary(base, n_rotated)
    return replace(made, base=base, scaling=scaling)


def divided(plain: Rotary, factors: Sequence[float] | npt.NDArray[np.float32]) -> Rotary:
    """Each frequency divided by its own factor: what a GGUF file's rope_freqs tensor asks for."""
    return _rotary(np.asarray(plain.inv_freq) / np.asarray(factors, np.float64), plain.magnitude)


def yarn_magnitude(factor: float, multiplier: float = 1.0) -> float:
    """YaRN's correction of the attention temperature, already split evenly between q and k."""
    return 1.0 if factor <= 1 else 0.1 * multiplier * math.log(factor) + 1.0


def _rotary(inv_freq: F64, magnitude: float = 1.0) -> Rotary:
    return Rotary(tuple(inv_freq.tolist()), magnitude)
