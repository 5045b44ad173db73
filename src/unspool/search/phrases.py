"""Phrases that a text must contain, followed token by token.

One automaton (Aho and Corasick 1975, "Efficient string matching") follows all of them at once: its node is
the longest end of the text that begins a phrase, so phrases that overlap count together and a beginning that
came to nothing is forgotten. A phrase may have alternatives, of which one is enough.

    Progress   node: what the text ends with | met: a bit for each phrase that the text contains
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from unspool.types import Ids

Spelling: TypeAlias = tuple[int, ...]  # token ids
_MOST_JOINED: Final = 10  # phrases whose overlaps are worked out: it takes 2^n steps


class Progress(NamedTuple):
    """How far a text is with the phrases."""

    node: int
    met: int


START: Final = Progress(0, 0)


class Phrases:
    """The automaton of some phrases, each a tuple of spellings. What it says is kept and found again."""

    def __init__(self, phrases: Sequence[Sequence[Spelling]]) -> None:
        self._all = (1 << len(phrases)) - 1
        self._shortest = [min(map(len, spellings)) for spellings in phrases]
        self._children: list[dict[int, int]] = [{}]
        self._fallback = [0]  # the node of the next shorter end that begins a phrase
        self._depth = [0]
        self._met = [0]  # phrases that a text which ends here contains by that
        self._paths: list[tuple[int, Spelling, list[int]]] = []  # phrase, spelling, its nodes by length
        self._begins: list[list[tuple[int, int]]] = [[]]  # of a node: (phrase, tokens still missing)
        for phrase, spellings in enumerate(phrases):
            for spelling in spellings:
                self._add(phrase, spelling)
        self._link()
        self._needed: dict[Progress, int] = {}
        self._least: dict[Progress, int] = {}
        self._leading: dict[int, Ids] = {}

    @property
    def n_tokens(self) -> int:
        """Tokens of all phrases, each in its shortest spelling: the number of banks less one."""
        return sum(self._shortest)

    def is_complete(self, progress: Progress) -> bool:
        return progress.met == self._all

    def unmet(self, progress: Progress) -> list[int]:
        return [i for i in range(len(self._shortest)) if not progress.met >> i & 1]

    def after(self, progress: Progress, token_id: int) -> Progress:
        node = self._next(progress.node, token_id)
        return Progress(node, progress.met | self._met[node])

    def over(self, token_ids: Iterable[int], progress: Progress = START) -> Progress:
        for token_id in token_ids:
            progress = self.after(progress, token_id)
        return progress

    def astray(self, progress: Progress) -> Progress:
        """After a token that begins or continues no phrase."""
        return Progress(0, progress.met)

    def leading(self, progress: Progress) -> Ids:
        """Token ids (n,), ascending, that begin or continue a phrase, met or not."""
        found = self._leading.get(progress.node)
        if found is None:
            tokens: set[int] = set()
            for node in self._ends(progress.node):
                tokens.update(self._children[node])
            found = self._leading[progress.node] = np.array(sorted(tokens), dtype=np.intp)
        return found

    def n_met(self, progress: Progress) -> int:
        """The bank: how many of the phrases' tokens the text has, finished phrases and one that is begun."""
        return self.n_tokens - self.n_needed(progress)

    def n_needed(self, progress: Progress) -> int:
        """Tokens that are enough to meet the rest: one phrase after the other, the begun one first."""
        known = self._needed.get(progress)
        if known is None:
            begun = [
                self._shortest[phrase] - n_missing
                for node in self._ends(progress.node)
                for phrase, n_missing in self._begins[node]
                if not progress.met >> phrase & 1
            ]
            total = sum(self._shortest[i] for i in self.unmet(progress))
            known = self._needed[progress] = total - max(0, *begun, 0)
        return known

    def fits(self, progress: Progress, n_left: int) -> bool:
        """Whether the rest can still be met with n_left tokens.

        Phrases that overlap may share tokens; that is looked for when it decides, among ten at most.
        """
        if self.n_needed(progress) <= n_left:
            return True
        return len(self.unmet(progress)) <= _MOST_JOINED and self.n_least(progress) <= n_left

    def n_least(self, progress: Progress) -> int:
        """The fewest tokens that meet the rest: the best order of phrases, each joined to what is there."""
        if self.is_complete(progress):
            return 0
        known = self._least.get(progress)
        if known is None:
            known = self._least[progress] = min(
                self._missing(progress.node, path) + self.n_least(self._joined(progress, spelling, path))
                for phrase, spelling, path in self._paths
                if not progress.met >> phrase & 1
            )
        return known

    def _joined(self, progress: Progress, spelling: Spelling, path: list[int]) -> Progress:
        return self.over(spelling[len(spelling) - self._missing(progress.node, path) :], progress)

    def _missing(self, node: int, path: list[int]) -> int:
        """How many tokens of a spelling have to follow a node, the end of the text being its beginning."""
        n_most = len(path) - 1  # a spelling that the text ends with was met
        for end in self._ends(node):
            n = self._depth[end]
            if n <= n_most and path[n] == end:
                return n_most - n
        return n_most

    def _ends(self, node: int) -> Iterable[int]:
        """A node and all shorter ends of it, the root last."""
        while node:
            yield node
            node = self._fallback[node]
        yield 0

    def _next(self, node: int, token_id: int) -> int:
        for end in self._ends(node):
            child = self._children[end].get(token_id)
            if child is not None:
                return child
        return 0

    def _add(self, phrase: int, spelling: Spelling) -> None:
        node, path = 0, [0]
        for n, token_id in enumerate(spelling, 1):
            child = self._children[node].get(token_id)
            if child is None:
                child = self._children[node][token_id] = len(self._children)
                self._children.append({})
                self._fallback.append(0)
                self._depth.append(n)
                self._met.append(0)
                self._begins.append([])
            node = child
            path.append(node)
            self._begins[node].append((phrase, len(spelling) - n))
        self._met[node] |= 1 << phrase
        self._paths.append((phrase, spelling, path))

    def _link(self) -> None:
        """Fallbacks, from the root down: parents come before their children, so theirs are known."""
        waiting = [0]
        for node in waiting:
            for token_id, child in self._children[node].items():
                if node:
                    self._fallback[child] = self._next(self._fallback[node], token_id)
                self._met[child] |= self._met[self._fallback[child]]
                waiting.append(child)
