"""Free pages, held pages, and that they add up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.errors import CapacityError
from unspool.kv.pool import PagePool


def test_pages_are_taken_all_or_none():
    pool = PagePool(4)
    assert pool.take(3) == [0, 1, 2]
    with pytest.raises(CapacityError, match="2 KV pages are needed and 1 of 4 are free"):
        pool.take(2)
    assert (pool.n_free, pool.n_live) == (1, 3)
    assert pool.take(0) == []


def test_a_page_is_free_when_no_one_holds_it_any_more():
    pool = PagePool(2)
    (page,) = pool.take(1)
    pool.share([page])
    assert pool.holders(page) == 2
    pool.release([page])
    assert pool.n_free == 1
    pool.release([page])
    assert pool.n_free == 2


def test_the_page_freed_last_is_used_first():
    pool = PagePool(4)
    pages = pool.take(4)
    pool.release(pages)
    assert pool.take(1) == [3]


def test_releasing_or_sharing_a_free_page_is_a_mistake():
    pool = PagePool(2)
    with pytest.raises(AssertionError, match="released once too often"):
        pool.release([1])
    with pytest.raises(AssertionError, match="is free and cannot be shared"):
        pool.share([1])


def test_a_pool_without_pages_is_refused():
    with pytest.raises(CapacityError, match="at least 1 page, got 0"):
        PagePool(0)


def test_the_check_sees_a_page_lost_and_a_page_held_twice():
    pool = PagePool(3)
    pages = pool.take(2)
    pool.check([pages])
    with pytest.raises(AssertionError, match="page 0 is counted 1 times and held 0 times"):
        pool.check([pages[1:]])
    with pytest.raises(AssertionError, match="held 2 times"):
        pool.check([pages, pages[:1]])
    pool._free.append(0)
    with pytest.raises(AssertionError, match="overlap"):
        pool.check([pages])
    pool._free[-1] = 2
    with pytest.raises(AssertionError, match="free twice"):
        pool.check([pages])


@given(st.lists(st.tuples(st.sampled_from("tsr"), st.integers(0, 9)), max_size=60))
def test_free_and_held_pages_always_add_up(actions):
    pool = PagePool(10)
    tables: list[list[int]] = []
    for action, n in actions:
        if action == "t" and n <= pool.n_free:
            tables.append(pool.take(n))
        elif action == "s" and tables:
            table = tables[n % len(tables)]
            pool.share(table)
            tables.append(list(table))
        elif action == "r" and tables:
            pool.release(tables.pop(n % len(tables)))
        pool.check(tables)
        assert pool.n_free + pool.n_live == 10


def test_the_cheap_sums_find_what_is_lost_and_what_is_miscounted():
    pool = PagePool(4)
    pages = pool.take(2)
    pool.keep(pages[0])
    pool.check_sums(1)
    pool.release(pages)
    assert (pool.n_free, pool.n_cached, pool.n_live) == (3, 1, 0)
    pool.check_sums(1)
    with pytest.raises(AssertionError, match="1 pages are marked as kept, the tree keeps 2"):
        pool.check_sums(2)
    pool._free.pop()
    with pytest.raises(AssertionError, match="2 free, 1 cached and 0 live pages are not 4"):
        pool.check_sums(1)
    pool._free.append(3)
    pool._n_cached = 0
    with pytest.raises(AssertionError, match="1 pages are cached, 0 were counted"):
        pool.check_sums(1)
