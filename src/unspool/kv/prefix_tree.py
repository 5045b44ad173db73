"""The prefix tree: texts whose keys and values are still in pages, found by their token ids.

A radix tree (Zheng et al. 2023, "SGLang", arXiv 2312.07104) with edges a page long. Token ids are compared
themselves, never by a hash, so a hit is a hit. Everything a table held may stay behind here when the table
is gone; least recently used leaves go first when pages are needed, and never one that a table holds.

    page     [0, S) tokens of one node, in the order of the text; only a leaf may have fewer
    kept     by the tree, and perhaps held by tables too, which never write to it

A prefix is valid whatever the layers: pages hold all tokens of all layers, sliding windows too, so what
is found is resident as a whole.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import field
from itertools import count

from unspool.kv.pool import PagePool
from unspool.light_dataclass import dataclass


@dataclass(slots=True, eq=False)
class Node:
    """A page of a text after the pages of its ancestors."""

    parent: Node | None  # None: a root, which has no page
    token_ids: tuple[int, ...]
    page: int
    used_at: int = 0  # by the tree's own clock
    children: list[Node] = field(default_factory=list)  # by token_ids, so that who begins alike is together
    salt: Hashable = None  # of a root
    is_in_tree: bool = True


@dataclass(frozen=True, slots=True)
class Place:
    """Where the whole pages of a text end in the tree."""

    node: Node
    n_pages: int


@dataclass(frozen=True, slots=True)
class Match:
    """The longest known beginning of a text: whole pages, and perhaps some tokens of one more."""

    pages: tuple[int, ...]
    partial_page: int | None  # to be copied before anything is written behind its first tokens
    n_tokens: int


class PrefixTree:
    """`match` a text, `insert` a text. `salt` keeps texts of different owners apart."""

    def __init__(self, pool: PagePool, page_size: int) -> None:
        self._pool = pool
        self._page_size = page_size
        self._roots: dict[Hashable, Node] = {}
        self._clock = count(1)
        self._order = count()  # breaks ties in the heap
        self._leaves: list[tuple[int, int, Node]] = []  # heap of (used_at, _, leaf), some stale
        self._n_nodes = 0
        pool.reclaim_with(self.evict)

    @property
    def n_pages(self) -> int:
        """Pages that the tree keeps, live ones among them."""
        return self._n_nodes

    def match(self, token_ids: Sequence[int], n_max: int, salt: Hashable = None) -> Match:
        """What is known of token_ids[:n_max]. The pages are not held for the caller: `share` them at once."""
        node = self._roots.get(salt)
        pages: list[int] = []
        at = 0
        while node is not None and at < n_max:
            wanted = tuple(token_ids[at : min(at + self._page_size, n_max)])
            node, n_common = _closest(node, wanted)
            if node is None:
                break
            self._touch(node)
            if n_common < self._page_size:
                return Match(tuple(pages), node.page, at + n_common)
            pages.append(node.page)
            at += n_common
        return Match(tuple(pages), None, at)

    def insert(
        self,
        token_ids: Sequence[int],
        n_tokens: int,
        pages: Sequence[int],
        salt: Hashable = None,
        after: Place | None = None,
    ) -> tuple[Place, list[tuple[int, int]]]:
        """Keep the live pages of token_ids[:n_tokens], where the tree does not know them yet.

        A partial last page may be given only when its table never writes to it again. Returns where the
        text's whole pages end in the tree (given back as `after`, a longer insert starts there), and which
        of them (index, page) the tree has another page for: a table that lives on must hold that one, or
        what the tree keeps above the table's pages would be no one's and could still not be evicted. For the
        same reason nothing is kept behind such a page that other tables hold too.
        """
        goes_on = after is not None and after.n_pages > 0 and after.node.is_in_tree
        at = after if after is not None and goes_on else Place(self._root(salt), 0)
        node, n_pages = at.node, at.n_pages
        others: list[tuple[int, int]] = []
        for i in range(n_pages, -(-n_tokens // self._page_size)):
            chunk = tuple(token_ids[i * self._page_size : min((i + 1) * self._page_size, n_tokens)])
            child, n_common = _closest(node, chunk)
            if child is None or n_common < len(chunk):
                if others and self._pool.holders(pages[i]) > 1:
                    break
                child = self._add(node, chunk, pages[i])
            self._touch(child)
            if len(chunk) == self._page_size == len(child.token_ids):
                node, n_pages = child, i + 1
                if child.page != pages[i]:
                    others.append((i, child.page))
        return Place(node, n_pages), others

    def evict(self, n: int) -> None:
        """Free n pages that no table holds, or all there are, the longest unused first."""
        in_use: list[tuple[int, int, Node]] = []
        n_freed = 0
        while n_freed < n and self._leaves:
            entry = heapq.heappop(self._leaves)
            used_at, _, leaf = entry
            if not leaf.is_in_tree or leaf.children or leaf.used_at != used_at:
                continue
            if self._pool.holders(leaf.page) > 0:
                in_use.append(entry)
                continue
            self._remove(leaf)
            n_freed += 1
        for entry in in_use:
            heapq.heappush(self._leaves, entry)

    def forget(self, salt: Hashable) -> None:
        """Keep none of an owner's texts any longer."""
        root = self._roots.get(salt)
        for node in reversed([] if root is None else list(_below(root))):  # leaves first
            self._remove(node)

    def clear(self) -> None:
        """Forget every text that no table holds."""
        self.evict(self._n_nodes)

    def pages(self) -> Iterator[int]:
        """Every page that the tree keeps."""
        for root in self._roots.values():
            for node in _below(root):
                yield node.page

    def check(self) -> None:
        """Assert that all pages that count as cached can be had: that no table holds one behind them."""
        for root in self._roots.values():
            assert root.children, "a root without a text"
            for node in _below(root):
                is_held = self._pool.holders(node.page) > 0
                assert node.parent is root or not is_held or self._pool.holders(_page_above(node)) > 0, (
                    f"page {node.page} is held and the one before it is not"
                )

    def _root(self, salt: Hashable) -> Node:
        return self._roots.get(salt) or Node(None, (), -1, salt=salt)

    def _add(self, parent: Node, token_ids: tuple[int, ...], page: int) -> Node:
        self._pool.keep(page)
        child = Node(parent, token_ids, page)
        siblings = parent.children
        at = bisect_left(siblings, token_ids, key=_token_ids)
        siblings.insert(at, child)
        self._n_nodes += 1
        if parent.parent is None and len(siblings) == 1:
            self._roots[parent.salt] = parent  # a root is there as long as it has children
        before = siblings[at - 1].token_ids if at else token_ids
        if len(before) < len(token_ids) and before == token_ids[: len(before)]:
            self._remove(siblings[at - 1])  # a partial page that this one contains; there can be no other
        return child

    def _remove(self, leaf: Node) -> None:
        parent = leaf.parent
        assert parent is not None
        assert not leaf.children, "only leaves leave"
        leaf.is_in_tree = False
        del parent.children[bisect_left(parent.children, leaf.token_ids, key=_token_ids)]
        self._n_nodes -= 1
        self._pool.drop(leaf.page)
        if not parent.children:
            if parent.parent is not None:
                self._push(parent)
            else:
                del self._roots[parent.salt]
                parent.is_in_tree = False

    def _touch(self, node: Node) -> None:
        node.used_at = next(self._clock)
        if not node.children:
            self._push(node)

    def _push(self, leaf: Node) -> None:
        heapq.heappush(self._leaves, (leaf.used_at, next(self._order), leaf))
        if len(self._leaves) > 4 * self._n_nodes + 64:  # mostly stale
            fresh = {
                id(n): (at, i, n)
                for at, i, n in self._leaves
                if n.is_in_tree and not n.children and n.used_at == at
            }
            self._leaves = sorted(fresh.values(), key=lambda entry: entry[:2])


def _closest(node: Node, chunk: tuple[int, ...]) -> tuple[Node | None, int]:
    """The child that shares most tokens with the chunk from its first on, and how many; none: (None, 0).

    Among texts in order, that is one of the two that the chunk would stand between.
    """
    at = bisect_left(node.children, chunk, key=_token_ids)
    best, n_best = None, 0
    for child in node.children[max(at - 1, 0) : at + 1]:
        n = _n_common(child.token_ids, chunk)
        if n > n_best:
            best, n_best = child, n
    return best, n_best


def _n_common(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    if a == b:
        return len(a)
    return next(
        (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y),
        min(len(a), len(b)),
    )


def _token_ids(node: Node) -> tuple[int, ...]:
    return node.token_ids


def _page_above(node: Node) -> int:
    assert node.parent is not None
    return node.parent.page


def _below(root: Node) -> Iterator[Node]:
    """Every node under this one, parents before their children."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield from node.children
        stack += node.children
