"""Shares of a step as the arrays that a runner reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unspool.engine.share import Share
from unspool.kv.layout import pages_for
from unspool.types import I32, Plan


def build_plan(shares: Sequence[Share]) -> Plan:
    """One sequence a share, in order; logits where a token is to be chosen, or the prompt scored."""
    token_ids: list[int] = []
    seq_start = [0]
    n_past: list[int] = []
    tables: list[I32] = []
    page_start = [0]
    logits_rows: list[int] = []
    for share in shares:
        strand = share.strand
        end = strand.n_cached + share.n_rows
        token_ids += strand.token_ids[strand.n_cached : end]
        seq_start.append(len(token_ids))
        n_past.append(strand.n_cached)
        pages = strand.table.pages[: pages_for(end, strand.table.page_size)]
        tables.append(pages)
        page_start.append(page_start[-1] + len(pages))
        logits_rows += range(len(token_ids) - share.n_logits, len(token_ids))
    return Plan(
        token_ids=np.array(token_ids, dtype=np.int32),
        seq_start=np.array(seq_start, dtype=np.int32),
        n_past=np.array(n_past, dtype=np.int32),
        page_table=np.concatenate(tables),
        page_start=np.array(page_start, dtype=np.int32),
        logits_rows=np.array(logits_rows, dtype=np.int32),
    )
