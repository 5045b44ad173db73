"""JSON that comes with a model: bounded in size, and an object at the top, or a typed error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from unspool.errors import ModelFileError
from unspool.models.weights.mapped_file import map_file, shown

MAX_JSON_BYTES = 16 << 20  # config.json is a few kB; the index of the largest sharded models about 5 MB


def read_json_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises ModelNotFound when there is no such file."""
    data = map_file(path)
    if len(data) > MAX_JSON_BYTES:
        raise ModelFileError(path, "file", f"is {len(data)} bytes, expected {MAX_JSON_BYTES} at most")
    return parse_json_object(data[:], path, "json")


def read_optional_json_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file, or an empty one when there is no such file."""
    return read_json_object(path) if path.is_file() else {}


def checked_text(path: Path, field: str, text: str) -> str:
    """The text itself, or ModelFileError where it is none: JSON can spell half a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ModelFileError(path, field, "holds half a surrogate pair, which is no text") from None
    return text


def described(value: Any) -> str:
    """A JSON value for an error message: itself when it is small and flat, else its kind."""
    if value is None:
        return "missing"
    if isinstance(value, list) and len(value) <= 8 and all(isinstance(item, int | float) for item in value):
        return shown(str(value))
    if isinstance(value, list | dict):
        return f"a {type(value).__name__} of {len(value)}"
    return shown(repr(value))


def parse_json_object(data: bytes, path: Path, field: str, *, unique_keys: bool = False) -> dict[str, Any]:
    """Parse UTF-8 JSON; `unique_keys` refuses a key that appears twice in one object."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in pairs:
            if key in result:
                raise ModelFileError(path, field, f"has the key {shown(key)} twice")
            result[key] = value
        return result

    try:
        value = json.loads(data.decode(), object_pairs_hook=unique if unique_keys else None)
    except RecursionError:
        raise ModelFileError(path, field, "nests too deep") from None
    except ValueError as problem:  # not UTF-8, not JSON, or a number of thousands of digits
        raise ModelFileError(path, field, f"is not JSON ({shown(str(problem))})") from None
    if not isinstance(value, dict):
        raise ModelFileError(path, field, f"is {described(value)}, expected an object")
    return value
