"""What the command line says about decoding parameters: taken from where they are declared."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any, Final

from unspool.params import RANGES, DecodingParams

DEFAULTS: Final[Mapping[str, Any]] = {field.name: field.default for field in fields(DecodingParams)}

TEXTS: Final = ("dry_breakers", "bad_words", "stop", "stop_regex")
IDS: Final = ("penalty_exclude_ids", "banned_token_ids", "allowed_token_ids", "stop_token_ids")
FLAGS: Final = tuple(name for name, default in DEFAULTS.items() if isinstance(default, bool))
METAVARS: Final[Mapping[str, str]] = {  # where the kind of value does not say enough
    "penalty_scope": "default|all|prompt|output",
    "order": "NAME|A,B,...",
    "logit_bias": "TOKEN=VALUE",
    "max_tokens": "N|none",
    "negative_prompt": "TEXT|[IDS]",
}


@lru_cache(maxsize=1)
def meanings() -> Mapping[str, str]:
    """Parameter to its meaning and range, from the docstring of DecodingParams (gone under -OO)."""
    doc = inspect.cleandoc(DecodingParams.__doc__ or "")
    entries = re.findall(r"^(\w+) {2,}(.+(?:\n {4,}.+)*)", doc, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def meaning(name: str) -> str:
    """What a parameter means, as a sentence without its paper."""
    text = re.sub(r" ?\([^()]*(arXiv [\d.]+|\b(19|20)\d\d)\)", "", meanings().get(name, ""))
    text = re.sub(r"\.? ?([\[(][-\d.*, ]+[\])])\.?$", r"; in \1", text)  # the range ends the sentence
    text = text.replace("None", "none").replace("False", "false")  # as they are typed
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "." if text else ""


def metavar(name: str) -> str:
    if name in METAVARS:
        return METAVARS[name]
    if name in TEXTS:
        return "TEXT"
    if name in IDS:
        return "IDS"
    return "N" if name in RANGES and RANGES[name].integer else "X"


def shown(value: object) -> str:
    """A value as the command line shows it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(repr(item) if isinstance(item, str) else shown(item) for item in value) or "none"
    return "none" if value is None else str(value)
