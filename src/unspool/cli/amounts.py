"""Options that are an amount, as numbers; the options themselves are in options.py."""

from __future__ import annotations

from typing import Any

from unspool.cli.text import number_or_text
from unspool.errors import BadRequest, brief
from unspool.sizes import read_size
from unspool.thread_count import check_threads


def kv_size(text: str | None) -> dict[str, Any]:
    """--kv as settings of LLM. Raises BadRequest."""
    value = None if text is None else number_or_text(text)
    if value is None or (isinstance(value, int) and value >= 1):
        return {"kv_tokens": value}
    read_size("--kv", text if isinstance(value, int) else value, also="tokens (16384), ")
    return {"kv_memory": value}


def count(name: str, text: str | None) -> int | None:
    """An option that counts something. Raises BadRequest."""
    value = None if text is None else number_or_text(text)
    if value is None or (isinstance(value, int) and value >= 1):
        return value
    raise _bad_amount(name, ", at least 1", value)


def threads(text: str | None) -> int | None:
    """--threads. Raises BadRequest."""
    value: Any = None if text is None else number_or_text(text)
    check_threads(value)
    n_threads: int | None = value
    return n_threads


def whole(name: str, text: str, least: int = 0, most: int | None = None) -> int:
    """An option that counts something, where 0 may be a count. Raises BadRequest."""
    value = number_or_text(text)
    if not isinstance(value, int) or value < least or (most is not None and value > most):
        raise _bad_amount(name, f", at least {least}" if most is None else f" in [{least}, {most}]", value)
    return value


def _bad_amount(name: str, wanted: str, value: int | float | str) -> BadRequest:
    return BadRequest(
        f"{name} must be a whole number{wanted}, got {brief(value)}; leave it out for the default",
        code=f"bad_{name.strip('-').replace('-', '_')}",
    )
