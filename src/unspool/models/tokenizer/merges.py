"""Merge rules for a vocabulary that has scores instead: the SentencePiece kind of byte-pair encoding.

SentencePiece merges, among all neighbours whose concatenation is a piece, the pair whose piece scores
best, leftmost first. The same as a ranked list of merges: for each piece, from the best score down, every
way to cut it into two pieces. (Two cuts of one piece need an order that scores do not give; ids decide.)

The list is long: 513,511 merges for the 262,144 pieces of Gemma, out of 1.7 million possible cuts, so it is
found with arrays. With h(s) = sum_i f(s_i) * B^i mod 2^64, running sums over all characters give the
hash of every head and, multiplied by the inverse of B^i (B is odd), of every tail; a cut is a merge
when both hashes belong to pieces. The tests compare it with the two loops it replaces.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

MAX_PIECES = 1 << 21  # three numbers of 21 bits are packed into one sort key
MAX_CHARACTERS = 1 << 23  # of all pieces together; the largest vocabularies need 2**21

_BASE = 0x9E3779B97F4A7C15
_SPREAD = np.uint64(0xD6E8FEB86659FD93)
_SHIFT = np.uint64(0x2545F4914F6CDD1D)
_KEY_BITS = 21
_KEY_MASK = (1 << _KEY_BITS) - 1


def derive_merges(pieces: list[str], scores: npt.NDArray[np.float64]) -> list[tuple[str, str]]:
    """Merges, best first, for N distinct pieces with their scores (N,), given in ascending order of id."""
    assert len(pieces) == len(scores) <= MAX_PIECES
    if not pieces:
        return []
    whole, left, right = _cuts(pieces)
    rank = np.empty(len(pieces), dtype=np.int64)  # (N,) place of each piece in the order of merging
    rank[np.argsort(-scores, kind="stable")] = np.arange(len(pieces))
    keys = (rank[whole] << (2 * _KEY_BITS)) | (left.astype(np.int64) << _KEY_BITS) | right
    keys.sort()
    at = pieces.__getitem__
    lefts = ((keys >> _KEY_BITS) & _KEY_MASK).tolist()
    rights = (keys & _KEY_MASK).tolist()
    return list(zip(map(at, lefts), map(at, rights), strict=True))


def _cuts(pieces: list[str]) -> tuple[I32, I32, I32]:
    """Every (whole, left, right), indices into pieces, with pieces[left] + pieces[right] == pieces[whole]."""
    lengths = np.fromiter(map(len, pieces), dtype=np.int64, count=len(pieces))
    characters = np.frombuffer("".join(pieces).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)  # (C,)
    begin = np.zeros(len(pieces) + 1, dtype=np.int64)
    np.cumsum(lengths, out=begin[1:])
    place = np.arange(len(characters)) - np.repeat(begin[:-1], lengths)  # (C,) of a character in its piece
    power, inverse = _powers(int(lengths.max()))
    running = np.zeros(len(characters) + 1, dtype=np.uint64)  # (C + 1,) sums before each character
    np.cumsum((characters.astype(np.uint64) * _SPREAD + _SHIFT) * power[place], out=running[1:])
    before = running[begin[:-1]]  # (N,)
    find = _Finder(running[begin[1:]] - before)

    cut = np.flatnonzero(place > 0)  # a cut is named by the first character of its tail
    whole = np.repeat(np.arange(len(pieces), dtype=np.int32), lengths)[cut]
    left = find(running[cut] - before[whole])
    keep = left >= 0
    cut, whole, left = cut[keep], whole[keep], left[keep]
    right = find((running[begin[1:]][whole] - running[cut]) * inverse[place[cut]])
    keep = right >= 0
    return whole[keep], left[keep], right[keep]


def _powers(n: int) -> tuple[U64, U64]:
    """B^0 .. B^n and their inverses, mod 2^64."""
    power = np.full(n + 1, _BASE, dtype=np.uint64)
    inverse = np.full(n + 1, pow(_BASE, -1, 1 << 64), dtype=np.uint64)
    power[0] = inverse[0] = 1
    return np.multiply.accumulate(power), np.multiply.accumulate(inverse)


class _Finder:
    """Index of a hash among N hashes, or -1, for millions of queries at once.

    Open tables, each for the hashes that found their slot taken in the one before; the slots are other bits
    of the hash. With four slots a hash the second table is small and a third is rare.
    """

    def __init__(self, hashes: U64) -> None:
        self._hashes = hashes
        bits = max(4, (4 * len(hashes)).bit_length())
        self._tables: list[tuple[np.uint64, I32]] = []
        rest = np.arange(len(hashes), dtype=np.int32)
        for shift in range(64 - bits, -1, -5):
            slots = self._slots(hashes[rest], np.uint64(shift), bits)
            table = np.full(1 << bits, -1, dtype=np.int32)
            table[slots] = rest
            self._tables.append((np.uint64(shift), table))
            rest = rest[table[slots] != rest]
            if not len(rest):
                break
        self._bits = bits

    @staticmethod
    def _slots(hashes: U64, shift: np.uint64, bits: int) -> U64:
        slots: U64 = (hashes >> shift) & np.uint64((1 << bits) - 1)
        return slots

    def __call__(self, queries: U64) -> I32:
        found = np.full(len(queries), -1, dtype=np.int32)
        for shift, table in self._tables:
            candidate = table[self._slots(queries, shift, self._bits)]
            hit = (candidate >= 0) & (self._hashes[candidate] == queries)
            found[hit] = candidate[hit]
        return found
