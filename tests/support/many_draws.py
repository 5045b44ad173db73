"""`choose` for many positions of one branch at a time and a small vocabulary: 10^5 draws in 0.1 s.

test_many_draws_equal_choose in tests/unit/logits/test_drawn_tokens.py holds it to the real one.
"""

from __future__ import annotations

import numpy as np

from unspool.rng import Noise, gumbel_of, philox4x32

N_MOST = 16  # tokens: they share one block of coarse bytes


def upper_tails(seed, branch, n_positions, stage, n_vocab):
    """`Noise.upper_tail` of tokens [0, n_vocab) at positions [0, n_positions): (N, V)."""
    assert n_vocab <= N_MOST
    noise = Noise(seed, branch, 0, stage)
    coarse_words = _words(noise, "coarse", 0, n_positions)  # (4, N)
    tails = np.empty((n_positions, n_vocab))
    for token_id in range(n_vocab):
        fine = _words(noise, "fine", token_id >> 2, n_positions)[token_id & 3]
        coarse = (coarse_words[token_id >> 2] >> np.uint64(8 * (token_id & 3))) & np.uint64(0xFF)
        tails[:, token_id] = ((coarse << np.uint64(32) | fine).astype(np.float64) + 0.5) * 2.0**-40
    return tails


def drawn(z, *, seed, branch=0, n=100_000):
    """Token ids (N,) chosen at positions [0, n) by logits (V,), or by (N, V), each position its own."""
    z = np.atleast_2d(z)
    return (z + gumbel_of(upper_tails(seed, branch, n, "choose", z.shape[1]))).argmax(axis=1)


def _words(noise, part, block, n_positions):
    counters = np.empty((4, n_positions), dtype=np.uint64)
    counters[0] = block
    counters[1] = np.arange(n_positions)
    counters[2] = noise.branch
    counters[3] = noise._tag(part)
    return philox4x32(counters, (noise.seed & 0xFFFFFFFF, noise.seed >> 32))
