"""Sessions: the keys and values of one text, and what they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from unspool.errors import SessionFileError
from unspool.light_dataclass import dataclass
from unspool.types import I32, U8


@dataclass(frozen=True, slots=True)
class KvIdentity:
    """Whose keys and values these are, and of what shape."""

    model: str  # a name to show; the digests decide
    model_sha256: str
    tokenizer_sha256: str
    n_layers: int
    n_kv_heads: int
    head_dim: int
    dtype: str  # as NumPy writes it, "<f2"


@dataclass(frozen=True, slots=True, eq=False)
class Session:
    """A text and its keys and values, apart from any engine."""

    identity: KvIdentity
    token_ids: I32  # (N,)
    values: U8  # (N, B)
    note: Mapping[str, Any]  # what whoever saved it keeps with it: a JSON object
    origin: str = "session"  # for messages: the file it came from

    @property
    def n_tokens(self) -> int:
        return len(self.token_ids)


def check_identity(origin: str | Path, found: KvIdentity, expected: KvIdentity) -> None:
    """SessionFileError, with code `session_mismatch`, for keys and values of another model or runner."""
    check_model(origin, found, expected.model, expected.model_sha256)
    if found.tokenizer_sha256 != expected.tokenizer_sha256:
        field, problem = "tokenizer", f"is not the one that {expected.model!r} has now"
    else:
        for each in fields(KvIdentity):
            was, now = getattr(found, each.name), getattr(expected, each.name)
            if each.name != "model" and was != now:
                field, problem = each.name, f"is {was!r}, and {now!r} with this runner"
                break
        else:
            return
    raise _mismatch(origin, field, problem)


def check_model(origin: str | Path, found: KvIdentity, model: str, model_sha256: str) -> None:
    """The part of `check_identity` for which no runner is needed: before weights are packed for one."""
    if found.model_sha256 != model_sha256:
        weights = "" if found.model != model else " with other weights"
        raise _mismatch(origin, "model", f"is of {found.model!r}, and {model!r}{weights} is loaded")


def _mismatch(origin: str | Path, field: str, problem: str) -> SessionFileError:
    return SessionFileError(
        origin,
        field,
        f"{problem}; load what it was saved with, or save another session",
        code="session_mismatch",
    )
