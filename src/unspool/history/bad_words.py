"""Which tokens would finish a bad word."""

from __future__ import annotations

from collections.abc import Sequence

from unspool.rules import Rules


class BadWordEnds:
    """The spellings by the token before their last: one step back tells which are worth comparing.

    Follows no text of its own: the last tokens are all that matters.
    """

    def __init__(self, spellings: Sequence[tuple[int, ...]]) -> None:
        self._single = frozenset(spelling[0] for spelling in spellings if len(spelling) == 1)
        self._by_last_but_one: dict[int, list[tuple[int, ...]]] = {}
        for spelling in spellings:
            if len(spelling) > 1:
                self._by_last_but_one.setdefault(spelling[-2], []).append(spelling)

    @classmethod
    def of(cls, rules: Rules) -> BadWordEnds | None:
        return cls(rules.bad_words) if rules.bad_words else None

    def banned(self, token_ids: Sequence[int]) -> set[int]:
        banned = set(self._single)
        for spelling in self._by_last_but_one.get(token_ids[-1], ()) if token_ids else ():
            n_before = len(spelling) - 1
            if tuple(token_ids[-n_before:]) == spelling[:-1]:
                banned.add(spelling[-1])
        return banned
