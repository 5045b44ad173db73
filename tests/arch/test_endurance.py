"""A day of requests in miniature, made smaller still; the figures come from running bench/endurance.py."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from unspool.engine.engine import Engine
from unspool.engine.stream import EventStream
from unspool.engine.task import Branch, Task
from unspool.engine.transcript import Transcript
from unspool.history import History
from unspool.kv.prefix_tree import Node
from unspool.kv.table import PageTable
from unspool.params import DecodingParams
from unspool.types import Event, Request

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture(autouse=True)
def bench_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))


@contextmanager
def nothing_counts_so_far() -> Iterator[None]:
    """What is there already is not among gc.get_objects: other tests leave things that go only later."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def how_many() -> dict[str, int]:
    """Objects of ours that live, by their class: what a request is made of."""
    gc.collect()
    kinds = (Task, Branch, PageTable, Transcript, History, Node, Request, Event, EventStream, Engine)
    counts = {kind.__name__: sum(type(thing) is kind for thing in gc.get_objects()) for kind in kinds}
    return {name: n for name, n in counts.items() if n}


def test_requests_that_end_or_are_given_up_leave_nothing_behind() -> None:
    from endurance import endure

    with nothing_counts_so_far():
        report = endure(600, 0.2, seed=1)
        assert report.n_requests == 600
        assert abs(report.n_cancelled - 120) <= 12
        assert report.n_pages_lost == 0
        assert report.n_preemptions > 0
        assert report.cached_tokens > 0
        assert how_many() == {}


def test_what_a_request_is_made_of_is_counted() -> None:
    with nothing_counts_so_far():
        assert how_many() == {}
        kept = [Request((1,), DecodingParams())]
        assert how_many() == {"Request": len(kept)}


def test_memory_that_moves_is_told_from_memory_that_stays() -> None:
    from endurance import Report, resident_bytes

    assert Report(resident=[100, 101, 99, 103, 100]).change == pytest.approx(0.03)
    assert Report().change == 0
    assert resident_bytes() > 10_000_000
