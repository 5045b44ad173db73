"""A vocabulary's pieces, as its file spells them, side by side: every one at hand, and all at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from unspool.light_dataclass import dataclass
from unspool.models.tokenizer.spelling import BYTES_OF_CHARACTERS, SPACE_MARK, Spelling

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pieces:
    """V pieces in one string, a few bytes each instead of an object; "" where a row has none."""

    text: str
    ends: I64  # (V + 1,) piece i is text[ends[i] : ends[i + 1]]

    @classmethod
    def of(cls, pieces: Sequence[str]) -> Pieces:
        n_characters = np.fromiter(map(len, pieces), np.int64, len(pieces))
        return cls("".join(pieces), np.concatenate(([0], np.cumsum(n_characters))))

    def __getitem__(self, token_id: int) -> str:
        return self.text[self.ends[token_id] : self.ends[token_id + 1]]

    def spelled(self, spelling: Spelling) -> tuple[bytes, I64, I64]:
        """The bytes of all pieces in a row, where each ends (V + 1,), and the ids that are not so spelled:
        those with a character outside a byte-level alphabet."""
        characters = np.frombuffer(self.text.encode("utf-32-le"), np.uint32)
        if spelling is Spelling.BYTE_LEVEL:
            known = BYTES_OF_CHARACTERS[np.minimum(characters, BYTES_OF_CHARACTERS.size - 1)]
            strange = np.searchsorted(self.ends, np.flatnonzero(known < 0), side="right") - 1
            return known.astype(np.uint8).tobytes(), self.ends, np.unique(strange)
        spaced = np.where(characters == ord(SPACE_MARK), np.uint32(ord(" ")), characters)
        n_bytes = 1 + (spaced >= 0x80) + (spaced >= 0x800) + (spaced >= 0x10000)  # of each in UTF-8
        ends = np.concatenate(([0], np.cumsum(n_bytes, dtype=np.int64)))[self.ends]
        return spaced.tobytes().decode("utf-32-le").encode(), ends, np.empty(0, np.int64)
