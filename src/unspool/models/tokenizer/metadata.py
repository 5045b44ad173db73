"""Typed reading of metadata: a wrong type or an id outside the vocabulary names the file and the field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from unspool.errors import ModelFileError, brief
from unspool.models.weights.string_array import StringArray


class Fields:
    """The key-values of one file."""

    def __init__(self, path: Path, values: Mapping[str, Any]) -> None:
        self.path = path
        self._values = values

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def fail(self, key: str, problem: str) -> NoReturn:
        raise ModelFileError(self.path, key, problem)

    def string(self, key: str, default: str | None = None) -> str:
        value = self._values.get(key, default)
        if value is None:
            self.fail(key, "is missing")
        if not isinstance(value, str):
            self.fail(key, f"is {brief(value)}, expected a string")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self._values.get(key, default)
        if not isinstance(value, bool):
            self.fail(key, f"is {brief(value)}, expected true or false")
        return value

    def token_id(self, key: str, vocab_size: int) -> int | None:
        """An id of the vocabulary, or None where the file does not say."""
        value = self._values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self.fail(key, f"is {brief(value)}, expected a token id")
        if not 0 <= value < vocab_size:
            self.fail(key, f"is {value}, outside the vocabulary of {vocab_size} tokens")
        return value

    def strings(self, key: str) -> list[str]:
        value = self._values.get(key)
        if value is None:
            self.fail(key, "is missing")
        if isinstance(value, str | bytes) or not isinstance(value, Sequence):
            self.fail(key, f"is {brief(value)}, expected an array of strings")
        items = list(value)
        if set(map(type, items)) - {str}:
            index, item = next((i, item) for i, item in enumerate(items) if type(item) is not str)
            self.fail(f"{key}[{index}]", f"is {brief(item)}, expected a string")
        return items

    def split_strings(self, key: str) -> list[tuple[str, ...]]:
        """An array of strings, each cut at its spaces."""
        value = self._values.get(key)
        if isinstance(value, StringArray):
            return value.split()
        return [tuple(text.split(" ")) for text in self.strings(key)]

    def numbers(self, key: str, n: int) -> npt.NDArray[Any] | None:
        """An array of n numbers, or None where the file has none."""
        value = self._values.get(key)
        if value is None:
            return None
        if isinstance(value, str | bytes) or not isinstance(value, Sequence | np.ndarray):
            self.fail(key, f"is {brief(value)}, expected an array of numbers")
        try:
            array = np.asarray(value)
        except (ValueError, OverflowError):  # lists of unequal lengths
            array = np.array(None)
        if array.ndim != 1 or array.dtype.kind not in "iuf":
            self.fail(key, f"is {brief(value)}, expected an array of numbers")
        if len(array) != n:
            self.fail(key, f"has {len(array)} entries for {n} tokens")
        return array
