"""How many pages tokens take."""

from __future__ import annotations


def pages_for(n_tokens: int, page_size: int) -> int:
    """Pages that hold this many tokens of one sequence: ceil(n_tokens / page_size)."""
    return -(-n_tokens // page_size)
