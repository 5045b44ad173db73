"""Checks of what verifiers are told, before there is an answer to judge. Each raises BadRequest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from unspool.errors import BadRequest, brief


def refused(name: str, wanted: str, value: object) -> BadRequest:
    return BadRequest(f"{name} must be {wanted}, got {brief(value)}", code="bad_verifier")


def check_whole(name: str, value: Any, least: int, most: int) -> None:
    """A whole number in [least, most]."""
    if type(value) is not int or not least <= value <= most:
        raise refused(name, f"a whole number in [{least}, {most}]", value)


def check_accept_at(value: Any) -> None:
    """The score from which on an answer is accepted, or None; -inf accepts all."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if value is not None and (not is_number or math.isnan(value)):
        raise refused("accept_at", "a number, or none for no such score", value)


def check_text(name: str, value: Any) -> None:
    if not isinstance(value, str) or not value:
        raise refused(name, "a text that is not empty", value)


def check_texts(name: str, value: Any) -> None:
    """Names with texts."""
    if not isinstance(value, Mapping) or not all(
        isinstance(key, str) and isinstance(text, str) for key, text in value.items()
    ):
        raise refused(name, 'names with texts, as in {"Name": "text"}', value)


def check_has(name: str, value: Any, method: str, what: str) -> None:
    """An object with a method, which text cannot give; None is the usual one."""
    if value is not None and not callable(getattr(value, method, None)):
        raise refused(name, f"{what}, which only a call from Python can give, or left out", value)
