"""Random numbers without a stream: a draw is a function of (seed, branch, position, stage, token).

Philox4x32-10 (Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3") turns
a 64-bit key and a 128-bit counter into 128 random bits. The seed is the key; the counter is
(token // 4, position, branch, stage), and token % 4 says which of the four words is the token's own. So
a draw needs nothing but its coordinates: it is the same alone, in a batch, after a preemption, and
whether one asks for the whole vocabulary or for the three tokens that survived.

This module lies below the stages and the searches, because both draw and neither may import the other.
"""

from __future__ import annotations

import secrets
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
F64 = npt.NDArray[np.float64]

N_ROUNDS = 10
_M0 = np.uint64(0xD2511F53)
_M1 = np.uint64(0xCD9E8D57)
_W0 = 0x9E3779B9
_W1 = 0xBB67AE85
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)

# The least 1 - u that a draw can have; a Gumbel draw is therefore below 33 ln 2 = 22.88.
LEAST_UPPER_TAIL = 2.0**-33


def fresh_seed() -> int:
    """64 bits of the operating system's entropy, for a request that names no seed."""
    return secrets.randbits(64)


def philox4x32(counter: tuple[Any, Any, Any, Any], key: tuple[int, int]) -> tuple[U64, U64, U64, U64]:
    """The four 32-bit words (each in a uint64) of every counter; scalars and (n,) uint64 arrays broadcast."""
    c0, c1, c2, c3 = (np.asarray(word, dtype=np.uint64) for word in counter)
    k0, k1 = key
    for _ in range(N_ROUNDS):
        left = c0 * _M0  # 32 x 32 bits never overflow the 64
        right = c2 * _M1
        c0 = (right >> _32) ^ c1 ^ np.uint64(k0)
        c2 = (left >> _32) ^ c3 ^ np.uint64(k1)
        c1 = right & _LOW
        c3 = left & _LOW
        k0 = (k0 + _W0) & 0xFFFFFFFF
        k1 = (k1 + _W1) & 0xFFFFFFFF
    return c0, c1, c2, c3


@dataclass(frozen=True, slots=True)
class Noise:
    """The draws of one row in one stage; index them by token id."""

    seed: int  # [0, 2**64)
    branch: int
    position: int  # absolute position of the token being chosen
    stage: str  # every stage has noise of its own

    def words(self, token_ids: npt.NDArray[np.intp]) -> U32:
        """32 random bits for each token: (n,) uint32."""
        key = (self.seed & 0xFFFFFFFF, self.seed >> 32)
        rest = (self.position, self.branch, zlib.crc32(self.stage.encode()))
        n_blocks = (int(token_ids.max()) >> 2) + 1 if token_ids.size else 0
        if token_ids.size >= n_blocks:  # dense: draw every block once, then pick
            blocks = np.arange(n_blocks, dtype=np.uint64)
            drawn = np.empty((n_blocks, 4), dtype=np.uint32)
            for lane, word in enumerate(philox4x32((blocks, *rest), key)):
                drawn[:, lane] = word
            flat: U32 = drawn.reshape(-1)
            return flat[token_ids]
        blocks = (token_ids >> 2).astype(np.uint64)
        lanes = np.stack(philox4x32((blocks, *rest), key))  # (4, n)
        picked = np.take_along_axis(lanes, (token_ids & 3)[None, :], axis=0)[0]
        return np.asarray(picked, dtype=np.uint32)

    def upper_tail(self, token_ids: npt.NDArray[np.intp]) -> F64:
        """1 - u for each token's uniform u: (n,) float64 in the open interval (0, 1), without rounding."""
        # u and 1 - u are odd multiples of 2**-33: never 0 or 1, and exact in float64.
        return (self.words(token_ids).astype(np.float64) + 0.5) * 2.0**-32

    def uniform(self, token_ids: npt.NDArray[np.intp]) -> F64:
        """A uniform for each token: (n,) float64 in the open interval (0, 1)."""
        return 1.0 - self.upper_tail(token_ids)

    def gumbel(self, token_ids: npt.NDArray[np.intp]) -> F64:
        """A standard Gumbel variate -ln(-ln u) for each token: (n,) float64, finite."""
        return gumbel_of(self.upper_tail(token_ids))


def gumbel_of(upper_tail: F64) -> F64:
    """-ln(-ln u) from 1 - u: (n,) float64."""
    result: F64 = -np.log(-np.log1p(-upper_tail))
    return result
