"""Random numbers without a stream: a draw is a function of (seed, branch, position, stage, token).

Philox4x32-10 (Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3") turns
a 64-bit key and a 128-bit counter into 128 random bits. The seed is the key; token, position, branch
and stage are the counter. So a draw needs nothing but its coordinates: it is the same alone, in a batch,
after a preemption, and whether one asks for the whole vocabulary or for the three tokens that survived.

A token's uniform has 40 bits: a coarse byte, of which one Philox block serves 16 tokens, and 32 fine
bits, of which one block serves 4. Who wins a vocabulary is nearly always settled by the coarse bytes.

This module lies below the stages and the searches, because both draw and neither may import the other.
"""

from __future__ import annotations

import os
import zlib
from typing import Final

import numpy as np
import numpy.typing as npt

from unspool.light_dataclass import dataclass

Ids = npt.NDArray[np.intp]
U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]
F64 = npt.NDArray[np.float64]

N_COARSE: Final = 256
LEAST_UPPER_TAIL: Final = 2.0**-41  # of 1 - u; its greatest is 1 less that

_ROUNDS = np.arange(10, dtype=np.uint64)[:, None]  # (10, 1)
_MULTIPLIERS = np.array([[0xD2511F53], [0xCD9E8D57]], dtype=np.uint64)  # (2, 1)
_WEYL = np.array([0x9E3779B9, 0xBB67AE85], dtype=np.uint64)  # (2,)
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_U64 = np.arange(9, dtype=np.uint64)  # small numbers that keep uint64 what it is


def fresh_seed() -> int:
    """64 bits of the operating system's entropy, for a request that names no seed."""
    return int.from_bytes(os.urandom(8), "little")


def philox4x32(counters: U64, key: tuple[int, int]) -> U64:
    """The four 32-bit words of every counter: (4, n) from (4, n), each word in a uint64."""
    keys = ((np.array(key, dtype=np.uint64) + _ROUNDS * _WEYL) & _LOW)[:, :, None]  # (10, 2, 1)
    even, odd = counters[0::2], counters[1::2]  # words 0 and 2, words 1 and 3
    for round_keys in keys:
        products = even * _MULTIPLIERS  # (2, n), 32 x 32 bits never overflow the 64
        even = (products >> _32)[::-1] ^ odd ^ round_keys
        odd = (products & _LOW)[::-1]
    words = np.empty_like(counters)
    words[0::2], words[1::2] = even, odd
    return words


@dataclass(frozen=True, slots=True)
class Noise:
    """The draws of one row in one stage; ask for them by token id."""

    seed: int  # [0, 2**64)
    branch: int
    position: int  # absolute position of the token being chosen
    stage: str  # every stage has noise of its own

    def coarse(self, n_vocab: int) -> U8:
        """The coarse byte of tokens [0, n_vocab): 1 - u lies in (coarse, coarse + 1) / 256."""
        blocks = np.arange((n_vocab + 15) // 16, dtype=np.uint64)
        words = np.empty((blocks.size, 4), dtype="<u4")  # so that byte t is that of token t on any machine
        words[:] = self._words(blocks, self._tag("coarse")).T
        return words.view(np.uint8).reshape(-1)[:n_vocab]

    def upper_tail(self, token_ids: Ids) -> F64:
        """1 - u for each token's uniform u: (n,) float64 in the open interval (0, 1), unrounded."""
        ids = token_ids.astype(np.uint64)
        n, at = ids.size, np.arange(ids.size)
        blocks = np.concatenate((ids >> _U64[4], ids >> _U64[2]))
        tags = np.repeat(np.array((self._tag("coarse"), self._tag("fine")), dtype=np.uint64), n)
        words = self._words(blocks, tags)  # (4, 2n)
        fine = words[token_ids & 3, at + n]
        coarse = (words[(token_ids >> 2) & 3, at] >> (ids & _U64[3]) * _U64[8]) & np.uint64(0xFF)
        bits: F64 = (coarse << _32 | fine).astype(np.float64)
        return (bits + 0.5) * 2.0**-40  # an odd multiple of 2**-41: never 0 or 1

    def uniform(self, token_ids: Ids) -> F64:
        """A uniform for each token: (n,) float64 in the open interval (0, 1)."""
        return 1.0 - self.upper_tail(token_ids)

    def gumbel(self, token_ids: Ids) -> F64:
        """A standard Gumbel variate -ln(-ln u) for each token: (n,) float64, finite."""
        return gumbel_of(self.upper_tail(token_ids))

    def _tag(self, part: str) -> int:
        return zlib.crc32(f"{self.stage}/{part}".encode())

    def _words(self, blocks: U64, tags: U64 | int) -> U64:
        counters = np.empty((4, blocks.size), dtype=np.uint64)
        counters[0] = blocks
        counters[1] = self.position
        counters[2] = self.branch
        counters[3] = tags
        return philox4x32(counters, (self.seed & 0xFFFFFFFF, self.seed >> 32))


def gumbel_of(upper_tail: F64) -> F64:
    """-ln(-ln u) from 1 - u: (n,) float64."""
    result: F64 = -np.log(-np.log1p(-upper_tail))
    return result


# A token whose coarse byte is c has 1 - u in (c, c + 1) / 256, so its Gumbel variate lies between these.
_EDGES = gumbel_of(np.linspace(0, 1, N_COARSE + 1).clip(LEAST_UPPER_TAIL / 2, 1 - LEAST_UPPER_TAIL / 2))
GUMBEL_MOST: Final = _EDGES[:-1]  # (256,) by coarse byte
GUMBEL_LEAST: Final = _EDGES[1:]
