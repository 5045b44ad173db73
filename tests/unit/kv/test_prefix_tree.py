"""The prefix tree against a list of all texts that were ever inserted."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.kv import prefix_tree
from unspool.kv.pool import PagePool
from unspool.kv.prefix_tree import PrefixTree
from unspool.kv.table import PageTable

S = 4  # page_size


class Cache:
    """A pool, a tree, and what each page holds, as a runner would."""

    def __init__(self, n_pages=32):
        self.pool = PagePool(n_pages)
        self.tree = PrefixTree(self.pool, S)
        self.held: dict[int, list] = {}  # page: token ids written to it
        self.tables: list[PageTable] = []

    def write(self, ids, salt=None):
        """What a request does: adopt what is known, write the rest, keep it, hold it."""
        table = PageTable(self.pool, S)
        match = self.tree.match(ids, len(ids), salt)
        n_cached, copy = table.adopt(match)
        if copy is not None:
            self.held[copy[1]] = self.held[copy[0]][: n_cached % S]
        table.grow(len(ids))
        pages = table.pages.tolist()
        for at in range(n_cached, len(ids)):
            page = self.held.setdefault(pages[at // S], [])
            del page[at % S :]
            page.append((salt, tuple(ids[: at + 1])))  # keys and values depend on all the text before
        for at in range(len(ids)):
            assert self.held[pages[at // S]][at % S] == (salt, tuple(ids[: at + 1])), "another text's page"
        self.tables.append(table)
        return table, n_cached

    def end(self, table, ids, salt=None):
        self.tree.insert(ids, len(ids), table.pages.tolist(), salt)
        table.release()
        self.tables.remove(table)

    def check(self):
        self.pool.check((t.pages.tolist() for t in self.tables), self.tree.pages())
        assert self.tree.n_pages == len(list(self.tree.pages()))
        self.tree.check()

    def fork(self, table, ids, n, salt=None):
        """What a search does: a table that goes on after n tokens of another."""
        child, copy = table.fork(n)
        if copy is not None:
            self.held[copy[1]] = self.held[copy[0]][: n % S]
        self.tables.append(child)
        return child

    def extend(self, table, ids, n_cached, salt=None):
        table.grow(len(ids))
        pages = table.pages.tolist()
        for at in range(n_cached, len(ids)):
            page = self.held.setdefault(pages[at // S], [])
            del page[at % S :]
            page.append((salt, tuple(ids[: at + 1])))


def known(cache, ids, salt=None):
    return cache.tree.match(ids, len(ids), salt).n_tokens


def test_a_text_is_found_to_its_last_token_and_no_further():
    cache = Cache()
    table, _ = cache.write(range(10))
    cache.end(table, range(10))
    assert known(cache, range(10)) == 10
    assert known(cache, range(20)) == 10
    assert known(cache, range(6)) == 6
    assert known(cache, [0, 1, 2, 9]) == 3
    assert known(cache, [1, 0]) == 0
    assert known(cache, []) == 0
    assert (cache.pool.n_cached, cache.pool.n_live) == (3, 0)


def test_no_more_is_matched_than_asked_for():
    cache = Cache()
    table, _ = cache.write(range(8))
    cache.end(table, range(8))
    assert cache.tree.match(range(8), 7).n_tokens == 7
    assert cache.tree.match(range(8), 0).n_tokens == 0


def test_a_hit_inside_a_page_copies_that_page_and_shares_the_others():
    cache = Cache()
    table, _ = cache.write(range(10))
    cache.end(table, range(10))
    again, n_cached = cache.write([0, 1, 2, 3, 4, 5, 99])
    assert n_cached == 6
    assert cache.pool.holders(again.pages[0]) == 1
    assert cache.pool.n_live == 2
    cache.check()


def test_owners_with_another_salt_share_nothing():
    cache = Cache()
    for salt in ("a", "b", None, ("a",), 1):
        assert known(cache, range(8), salt) == 0
        table, n_cached = cache.write(range(8), salt)
        assert n_cached == 0
        cache.end(table, range(8), salt)
        assert known(cache, range(8), salt) == 8


def test_the_longest_unused_goes_first_and_leaves_go_before_what_they_hang_on():
    cache = Cache(n_pages=6)
    for ids in ([1] * 8, [2] * 8, [3] * 8):
        table, _ = cache.write(ids)
        cache.end(table, ids)
    assert cache.pool.n_free == 0
    assert known(cache, [1] * 8) == 8  # and so it is used
    cache.tree.evict(1)
    assert [known(cache, [i] * 8) for i in (2, 1, 3)] == [4, 8, 8]
    cache.tree.evict(3)
    assert cache.pool.n_free == 4
    assert [known(cache, [i] * 8) for i in (2, 1, 3)] == [0, 0, 8]


def test_pages_in_use_are_never_evicted():
    cache = Cache(n_pages=4)
    table, _ = cache.write(range(8))
    cache.tree.insert(range(8), 8, table.pages.tolist())
    cache.tree.evict(10)
    assert known(cache, range(8)) == 8
    cache.check()
    cache.end(table, range(8))
    cache.tree.clear()
    assert (cache.pool.n_free, cache.tree.n_pages) == (4, 0)


def test_taking_pages_drops_cached_ones_when_it_must():
    cache = Cache(n_pages=4)
    table, _ = cache.write(range(12))
    cache.end(table, range(12))
    assert cache.pool.n_available == 4
    table, n_cached = cache.write([7] * 16)
    assert n_cached == 0
    assert cache.pool.n_cached == 0
    cache.check()


def test_a_longer_text_takes_the_place_of_a_partial_page_that_it_contains():
    cache = Cache()
    for n in (5, 6, 7, 8):
        table, _ = cache.write(range(n))
        cache.end(table, range(n))
        assert cache.tree.n_pages == 2
        assert known(cache, range(n)) == n
    cache.check()


def test_an_insert_goes_on_where_the_last_one_stopped():
    cache = Cache()
    table, _ = cache.write(range(12))
    pages = table.pages.tolist()
    after, _ = cache.tree.insert(range(12), 4, pages)
    assert after.n_pages == 1
    after, others = cache.tree.insert(range(12), 12, pages, after=after)
    assert (after.n_pages, others, known(cache, range(12))) == (3, [], 12)
    cache.end(table, range(12))
    cache.tree.clear()
    table, _ = cache.write(range(16))
    assert cache.tree.insert(range(16), 16, table.pages.tolist(), after=after)[0].n_pages == 4
    assert known(cache, range(16)) == 16
    cache.check()


def test_keeping_a_page_that_is_not_live_or_kept_is_a_mistake():
    pool = PagePool(2)
    with pytest.raises(AssertionError, match="not live"):
        pool.keep(0)
    pool.take(1)
    pool.keep(0)
    with pytest.raises(AssertionError, match="kept twice"):
        pool.keep(0)
    with pytest.raises(AssertionError, match="not kept"):
        pool.drop(1)


salts = st.sampled_from([None, "x"])
texts = st.lists(st.integers(0, 1), min_size=1, max_size=14)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["write", "fork", "end", "drop", "evict"]), texts, st.sampled_from([None, "x"])
        )
    )
)
def test_whatever_happens_a_page_holds_the_text_it_is_found_by(actions):
    cache = Cache(n_pages=12)
    running: list[tuple] = []
    for action, ids, salt in actions:
        n_needed = -(-len(ids) // S) + 1
        if action == "write" and cache.pool.n_available >= n_needed:
            table, _ = cache.write(ids, salt)  # asserts that every position holds this very text
            running.append((table, ids, salt))
        elif action == "fork" and running and cache.pool.n_available >= n_needed + 3:
            table, before, salt = running[len(ids) % len(running)]
            n = min(len(before), 2 * len(ids))
            child = cache.fork(table, before, n, salt)
            after = [*before[:n], *ids[: len(ids) // 2]]
            cache.extend(child, after, n, salt)
            running.append((child, after, salt))
        elif action == "end" and running:
            table, ids, salt = running.pop(len(ids) % len(running))
            cache.end(table, ids, salt)
            assert known(cache, ids, salt) == len(ids)
        elif action == "drop" and running:
            table, *_ = running.pop(0)
            table.release()
            cache.tables.remove(table)
        elif action == "evict":
            cache.tree.evict(len(ids))
        cache.check()
    taken = cache.pool.take(cache.pool.n_available)  # as many as there are said to be
    cache.pool.release(taken)
    for table, ids, salt in running:
        cache.end(table, ids, salt)
    cache.tree.clear()
    cache.check()
    assert cache.pool.n_free == 12
    assert cache.tree._roots == {}


def test_a_text_that_was_written_twice_gives_up_its_own_pages_for_those_of_the_tree():
    pool = PagePool(8)
    tree = PrefixTree(pool, S)
    first, second = PageTable(pool, S), PageTable(pool, S)
    for table in (first, second):
        table.grow(8)
    assert tree.insert(range(8), 8, first.pages.tolist())[1] == []
    _, others = tree.insert(range(8), 8, second.pages.tolist())
    assert others == list(enumerate(first.pages.tolist()))
    for index, page in others:
        second.replace(index, page)
    assert second.pages.tolist() == first.pages.tolist()
    assert pool.n_live == 2
    pool.check([first.pages.tolist(), second.pages.tolist()], tree.pages())


def test_nothing_is_kept_behind_a_page_that_its_other_holder_does_not_hold():
    """Or the page of the tree would count as cached, and no one could have it."""
    cache = Cache(n_pages=8)
    first, _ = cache.write([1] * 8)
    fork = cache.fork(first, [1] * 8, 8)
    same, _ = cache.write([1] * 4)  # not known yet: a page of its own
    cache.end(same, [1] * 4)
    cache.end(first, [1] * 8)
    cache.check()
    assert cache.pool.n_available == 6
    assert len(cache.pool.take(6)) == 6
    fork.release()


def test_an_owner_without_a_text_leaves_no_trace():
    cache = Cache()
    table, _ = cache.write([1] * 8, "a")
    place, _ = cache.tree.insert([1] * 8, 0, table.pages.tolist(), "a")  # nothing yet
    assert cache.tree._roots == {}
    cache.tree.insert([1] * 8, 4, table.pages.tolist(), "a")
    cache.tree.insert([1] * 8, 8, table.pages.tolist(), "a", after=place)
    assert known(cache, [1] * 8, "a") == 8
    cache.end(table, [1] * 8, "a")
    cache.tree.clear()
    assert cache.tree._roots == {}


def test_an_owner_can_be_forgotten_and_the_others_stay():
    cache = Cache()
    for salt in ("a", "b"):
        for ids in (range(10), [0, 1, 9]):
            table, _ = cache.write(ids, salt)
            cache.end(table, ids, salt)
    cache.tree.forget("a")
    cache.tree.forget("c")
    assert (known(cache, range(10), "a"), known(cache, range(10), "b")) == (0, 10)
    cache.check()
    cache.tree.forget("b")
    assert cache.pool.n_free == 32


def test_texts_that_part_in_their_first_page_are_found_without_a_look_at_each(monkeypatch):
    cache = Cache(n_pages=1000)
    for i in range(900):
        table, _ = cache.write([7, i, i, i])
        cache.end(table, [7, i, i, i])
    looked_at = []
    common = prefix_tree._n_common
    monkeypatch.setattr(prefix_tree, "_n_common", lambda a, b: looked_at.append(a) or common(a, b))
    assert [known(cache, [7, i, i, i, 1]) for i in range(0, 900, 90)] == [4] * 10
    assert known(cache, [7, 450, 450, 3]) == 3
    assert len(looked_at) < 30
