"""Reads typed, bounded values out of a file's metadata; every refusal names the file and the field."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unspool.errors import ModelFileError, brief
from unspool.light_dataclass import dataclass

_MISSING: Any = object()


@dataclass(frozen=True, slots=True)
class Fields:
    """A mapping from a file, with the name under which messages speak of its keys."""

    path: Path
    values: Mapping[str, Any]
    namespace: str = ""  # part of every key: "llama." in a GGUF file
    parent: str = ""  # where a nested mapping sits, for messages: "rope_scaling." in config.json

    def name(self, key: str) -> str:
        """The key as messages print it."""
        return f"{self.parent}{self.namespace}{key}"

    def fail(self, key: str, problem: str) -> ModelFileError:
        return ModelFileError(self.path, self.name(key), problem)

    def has(self, key: str) -> bool:
        """True when the key is there and is not null."""
        return self.values.get(f"{self.namespace}{key}") is not None

    def raw(self, key: str, default: Any = _MISSING) -> Any:
        value = self.values.get(f"{self.namespace}{key}")
        if value is None:
            if default is _MISSING:
                raise self.fail(key, "is missing")
            return default
        return value

    def integer(self, key: str, low: int, high: int, default: Any = _MISSING) -> int:
        """A whole number in [low, high]. A per-layer array counts when all its entries agree."""
        value = self._scalar(key, default)
        if isinstance(value, float) and value.is_integer():  # some writers of JSON spell 4096 as 4096.0
            value = int(value)
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
            raise self.fail(key, f"{_show(value)} is not a whole number")
        if not low <= value <= high:
            raise self.fail(key, f"{_show(value)} is out of range [{low}, {high}]")
        return int(value)

    def number(self, key: str, low: float, high: float, default: Any = _MISSING) -> float:
        """A finite number in [low, high]."""
        value = self._scalar(key, default)
        if isinstance(value, bool | np.bool_) or not isinstance(
            value, int | float | np.integer | np.floating
        ):
            raise self.fail(key, f"{_show(value)} is not a number")
        value = float(value)
        if not math.isfinite(value) or not low <= value <= high:
            raise self.fail(key, f"{value!r} is out of range [{low:g}, {high:g}]")
        return value

    def optional_number(self, key: str, low: float, high: float) -> float | None:
        """None when the key is missing, null or zero: files write a feature that is off in each way."""
        if not self.has(key) or self.raw(key) == 0:
            return None
        return self.number(key, low, high)

    def text(self, key: str, default: Any = _MISSING) -> str:
        value = self.raw(key, default)
        if not isinstance(value, str):
            raise self.fail(key, f"{_show(value)} is not text")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.raw(key, default)
        if not isinstance(value, bool | np.bool_):
            raise self.fail(key, f"{_show(value)} is not true or false")
        return bool(value)

    def sequence(self, key: str, length: int) -> list[Any]:
        value = self.raw(key)
        if isinstance(value, str | bytes) or not isinstance(value, Sequence | np.ndarray):
            raise self.fail(key, f"{_show(value)} is not a list")
        if len(value) != length:
            raise self.fail(key, f"has {len(value)} entries for {length} layers")
        return list(value)

    def table(self, key: str) -> Fields:
        """The nested mapping under key; an empty one when it is missing or null."""
        value = self.raw(key, {})
        if not isinstance(value, Mapping):
            raise self.fail(key, f"{_show(value)} is not a table of values")
        return Fields(self.path, value, parent=f"{self.name(key)}.")

    def _scalar(self, key: str, default: Any) -> Any:
        value = self.raw(key, default)
        if isinstance(value, list | tuple | np.ndarray):
            if len(value) == 0 or any(entry != value[0] for entry in value):
                raise self.fail(key, f"{_show(value)} differs by layer; only one for all is supported")
            return value[0]
        return value


def _show(value: object) -> str:
    return brief(value.tolist() if isinstance(value, np.ndarray | np.generic) else value)
