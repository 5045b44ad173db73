"""Random ways of computing the same sequences: chunks, batches and page tables in any order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from unspool.types import Plan


@dataclass(frozen=True)
class Part:
    """Some rows of one sequence: token_ids continue it after n_past tokens, on the given pages."""

    token_ids: Sequence[int]
    n_past: int
    pages: Sequence[int]


def make_plan(parts: Sequence[Part], logits_rows: Sequence[int] | None = None) -> Plan:
    """One plan of all parts; logits of every row unless told which."""
    seq_start = np.cumsum([0] + [len(part.token_ids) for part in parts])
    return Plan(
        token_ids=np.asarray([token for part in parts for token in part.token_ids], np.int32),
        seq_start=seq_start.astype(np.int32),
        n_past=np.asarray([part.n_past for part in parts], np.int32),
        page_table=np.asarray([page for part in parts for page in part.pages], np.int32),
        page_start=np.cumsum([0] + [len(part.pages) for part in parts]).astype(np.int32),
        logits_rows=np.arange(seq_start[-1], dtype=np.int32)
        if logits_rows is None
        else np.asarray(logits_rows, np.int32),
    )


@dataclass(frozen=True)
class Step:
    """A plan, and for each of its logits rows whose it is: (sequence, position)."""

    plan: Plan
    owners: tuple[tuple[int, int], ...]


def pages_for(n_tokens: int, page_size: int) -> int:
    return -(-n_tokens // page_size)


def random_steps(
    rng: np.random.Generator,
    sequences: Sequence[Sequence[int]],
    *,
    page_size: int,
    n_pages: int,
    max_chunk: int = 12,
    all_logits: bool = True,
) -> Iterator[Step]:
    """Compute all sequences to their ends in random steps: each step takes a random subset of them in
    random order, and of each a chunk of 1 to max_chunk tokens. Page tables are random and disjoint."""
    needed = [pages_for(len(tokens), page_size) for tokens in sequences]
    assert sum(needed) <= n_pages, f"{sum(needed)} pages needed, {n_pages} there"
    shuffled = rng.permutation(n_pages)
    bounds = np.cumsum([0, *needed])
    tables = [shuffled[bounds[b] : bounds[b + 1]].tolist() for b in range(len(sequences))]
    done = [0] * len(sequences)
    while True:
        open_ones = [b for b in range(len(sequences)) if done[b] < len(sequences[b])]
        if not open_ones:
            return
        chosen = rng.permutation(open_ones)[: rng.integers(1, len(open_ones) + 1)].tolist()
        parts, owners = [], []
        for b in chosen:
            n_rows = min(int(rng.integers(1, max_chunk + 1)), len(sequences[b]) - done[b])
            if rng.random() < 0.4:
                n_rows = 1  # a decode row among prompt chunks
            # Sometimes a table longer than needed yet: the engine may hold pages ahead of the text.
            covered = len(tables[b]) if rng.random() < 0.5 else pages_for(done[b] + n_rows, page_size)
            parts.append(Part(sequences[b][done[b] : done[b] + n_rows], done[b], tables[b][:covered]))
            owners += [(b, position) for position in range(done[b], done[b] + n_rows)]
            done[b] += n_rows
        rows = [row for row in range(len(owners)) if all_logits or rng.random() < 0.5]
        yield Step(make_plan(parts, rows), tuple(owners[row] for row in rows))
