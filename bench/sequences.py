"""Drive a runner without the engine: sequences that own fixed pages and only grow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unspool.kv.layout import pages_for
from unspool.runners.base import Runner
from unspool.types import F32, Plan


class Sequences:
    """B sequences side by side; sequence b owns pages [b * n, (b + 1) * n), n = pages_for(n_tokens)."""

    def __init__(self, runner: Runner, n_sequences: int, n_tokens: int) -> None:
        self.runner = runner
        self.pages_each = pages_for(n_tokens, runner.page_size)
        assert n_sequences * self.pages_each <= runner.n_pages
        self.n_past = [0] * n_sequences

    def extend(self, token_ids: Sequence[Sequence[int]], first: Sequence[int] | None = None) -> F32:
        """Append token_ids[b] to sequence b in one forward pass; the logits wanted, (W, V).

        Wanted is what follows the last token of each sequence, W = B; with `first`, what follows every
        position of sequence b from first[b] on, sequence after sequence.
        """
        lengths = [len(ids) for ids in token_ids]
        starts = np.cumsum([0, *lengths])
        page_table: list[int] = []
        page_start = [0]
        for b, (past, length) in enumerate(zip(self.n_past, lengths, strict=True)):
            n_pages = pages_for(past + length, self.runner.page_size)
            assert n_pages <= self.pages_each
            page_table += range(b * self.pages_each, b * self.pages_each + n_pages)
            page_start.append(len(page_table))
        if first is None:
            wanted = starts[1:] - 1
        else:
            skipped = np.maximum(np.asarray(first) - self.n_past, 0)
            parts = zip(starts[:-1] + skipped, starts[1:], strict=True)
            wanted = np.concatenate([np.arange(start, stop) for start, stop in parts])
        plan = Plan(
            token_ids=np.concatenate([np.asarray(ids, dtype=np.int32) for ids in token_ids]),
            seq_start=starts.astype(np.int32),
            n_past=np.asarray(self.n_past, dtype=np.int32),
            page_table=np.asarray(page_table, dtype=np.int32),
            page_start=np.asarray(page_start, dtype=np.int32),
            logits_rows=wanted.astype(np.int32),
        )
        logits = self.runner.forward(plan)
        self.n_past = [past + length for past, length in zip(self.n_past, lengths, strict=True)]
        return logits

    def rewind(self, n_past: int) -> None:
        """Forget what follows the first n_past tokens of every sequence."""
        assert all(n_past <= past for past in self.n_past)
        self.n_past = [n_past] * len(self.n_past)
