"""Decoding parameters in terms of one model's token ids: what texts mean there, and what ends a text."""

from __future__ import annotations

from typing import Final

from unspool.light_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Rules:
    """Fixed for a request; `engine.rules` makes it from the parameters and the vocabulary.

    Parameters in ids already (banned_token_ids, allowed_token_ids, ...) are read from the params.
    """

    end_ids: frozenset[int] = frozenset()  # choosing one ends the text
    bias: tuple[tuple[int, float], ...] = ()  # logit_bias, by id, ascending, without bans
    banned_ids: frozenset[int] = frozenset()  # banned_token_ids and biases of False
    bad_words: tuple[tuple[int, ...], ...] = ()  # each spelling of each, in ids
    dry_breaker_ids: frozenset[int] = frozenset()  # tokens whose text holds a breaker
    dry_breaker_runs: tuple[tuple[int, ...], ...] = ()  # tokens that only together hold one, in ids
    newline_ids: frozenset[int] = frozenset()  # tokens whose text holds a newline; XTC leaves them in
    template_positions: frozenset[int] = frozenset()  # where the chat template wrote the prompt


NO_RULES: Final = Rules()
