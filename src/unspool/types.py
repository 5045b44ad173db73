"""Values that cross the layers of the engine. All frozen: only `engine.commit` changes state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

I32 = npt.NDArray[np.int32]
F32 = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Plan:
    """One forward pass over B sequences, ragged: R rows (tokens) in all, P page-table entries in all.

    Sequence b owns rows [seq_start[b], seq_start[b+1]) and page-table entries
    [page_start[b], page_start[b+1]). Its row i has absolute position n_past[b] + i; positions
    [0, n_past[b]) are already in the cache. Position t lives in page
    page_table[page_start[b] + t // page_size], slot t % page_size; the table covers every position
    up to the last row of the sequence. A runner writes K and V of all R rows, and returns logits
    for `logits_rows` only. No page may be written by two sequences of one plan.
    """

    token_ids: I32  # (R,)
    seq_start: I32  # (B + 1,), seq_start[0] = 0, seq_start[B] = R
    n_past: I32  # (B,)
    page_table: I32  # (P,) page ids
    page_start: I32  # (B + 1,)
    logits_rows: I32  # (W,) indices into the R rows, ascending
