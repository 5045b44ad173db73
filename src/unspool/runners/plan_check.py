"""Asserts that a plan is what types.Plan promises, before a runner reads or writes anything."""

from __future__ import annotations

import numpy as np

from unspool.runners.base import Runner
from unspool.types import I32, Plan


def check_plan(plan: Plan, runner: Runner) -> None:
    """Raise AssertionError naming what is wrong: plans come from the engine, so a bad one is our mistake."""
    n_rows, n_sequences = len(plan.token_ids), len(plan.n_past)
    _check_starts("seq_start", plan.seq_start, n_sequences, n_rows)
    _check_starts("page_start", plan.page_start, n_sequences, len(plan.page_table))
    assert np.all((plan.token_ids >= 0) & (plan.token_ids < runner.vocab_size)), (
        f"token_ids must lie in [0, {runner.vocab_size})"
    )
    assert np.all((plan.page_table >= 0) & (plan.page_table < runner.n_pages)), (
        f"page_table must lie in [0, {runner.n_pages})"
    )
    assert np.all(plan.n_past >= 0), "n_past must not be negative"
    lengths = plan.n_past + np.diff(plan.seq_start)  # (B,) tokens once the plan has run
    assert np.all(lengths <= runner.context_length), (
        f"a sequence of {lengths.max(initial=0)} tokens exceeds the context of {runner.context_length}"
    )
    n_entries = np.diff(plan.page_start)
    assert np.all(n_entries * runner.page_size >= lengths), "a page table does not cover its sequence"
    wanted = plan.logits_rows
    assert np.all((wanted >= 0) & (wanted < n_rows)), f"logits_rows must lie in [0, {n_rows})"
    assert np.all(np.diff(wanted) > 0), "logits_rows must ascend"
    _check_writes(plan, runner.page_size)


def _check_starts(name: str, starts: I32, n_sequences: int, end: int) -> None:
    assert len(starts) == n_sequences + 1, f"{name} has {len(starts)} entries for {n_sequences} sequences"
    assert starts[0] == 0, f"{name} must begin with 0, not {starts[0]}"
    assert starts[-1] == end, f"{name} must end with {end}, not {starts[-1]}"
    assert np.all(np.diff(starts) >= 0), f"{name} must not descend"


def _check_writes(plan: Plan, page_size: int) -> None:
    """A page that is written appears once in its own table and is written by no other sequence."""
    written: set[int] = set()
    for b in range(len(plan.n_past)):
        n_rows = int(plan.seq_start[b + 1] - plan.seq_start[b])
        if n_rows == 0:
            continue
        table = plan.page_table[plan.page_start[b] : plan.page_start[b + 1]].tolist()
        first, last = int(plan.n_past[b]), int(plan.n_past[b]) + n_rows - 1
        for page in table[first // page_size : last // page_size + 1]:
            assert page not in written, f"page {page} is written twice in one plan"
            written.add(page)
