"""A branch's page table: growing, forking, releasing."""

from __future__ import annotations

import pytest

from unspool.errors import CapacityError
from unspool.kv.pool import PagePool
from unspool.kv.table import PageTable


def test_a_table_grows_by_whole_pages_and_only_when_it_must():
    table = PageTable(PagePool(64), page_size=4)
    table.grow(0)
    assert table.pages.tolist() == []
    table.grow(5)
    assert (table.pages.tolist(), table.n_tokens) == ([0, 1], 8)
    table.grow(8)
    table.grow(3)
    assert table.pages.tolist() == [0, 1]
    table.grow(64 * 4)
    assert table.pages.tolist() == list(range(64))


def test_a_table_that_cannot_grow_stays_as_it_was():
    table = PageTable(PagePool(2), page_size=4)
    table.grow(4)
    with pytest.raises(CapacityError):
        table.grow(13)
    assert table.pages.tolist() == [0]


def test_a_fork_on_a_page_boundary_shares_every_page_and_copies_none():
    pool = PagePool(8)
    parent = PageTable(pool, page_size=4)
    parent.grow(8)
    child, copy = parent.fork(8)
    assert copy is None
    assert child.pages.tolist() == [0, 1]
    assert [pool.holders(page) for page in (0, 1)] == [2, 2]
    pool.check([parent.pages.tolist(), child.pages.tolist()])


def test_a_fork_inside_a_page_copies_that_page_alone():
    pool = PagePool(8)
    parent = PageTable(pool, page_size=4)
    parent.grow(12)
    child, copy = parent.fork(6)
    assert copy == (1, 3)
    assert child.pages.tolist() == [0, 3]
    assert pool.holders(1) == 1
    child.grow(20)
    parent.release()
    parent.release()
    pool.check([child.pages.tolist()])
    child.release()
    assert pool.n_free == 8


def test_a_fork_without_a_free_page_changes_nothing():
    pool = PagePool(2)
    parent = PageTable(pool, page_size=4)
    parent.grow(8)
    with pytest.raises(CapacityError):
        parent.fork(7)
    pool.check([parent.pages.tolist()])


def test_a_fork_of_more_than_is_held_is_a_mistake():
    table = PageTable(PagePool(2), page_size=4)
    with pytest.raises(AssertionError, match="1 tokens are more than the 0 held"):
        table.fork(1)


def test_an_empty_table_forks_into_an_empty_table():
    pool = PagePool(2)
    child, copy = PageTable(pool, page_size=4).fork(0)
    assert copy is None
    child.grow(1)
    assert child.pages.tolist() == [0]
