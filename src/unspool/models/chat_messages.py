"""What a chat template is given: messages, tools and documents, checked and made of plain JSON values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from unspool.errors import BadRequest, brief

MAX_DEPTH = 64  # of JSON inside a message or a tool

# Names under which a message's reasoning is passed. Templates read the first; gpt-oss templates "thinking".
REASONING_FIELDS = ("reasoning_content", "thinking", "reasoning")


def plain_json(value: Any, where: str, depth: int = 0) -> Any:
    """A deep copy made of None, bool, int, float, str, list and dict alone; BadRequest for anything else."""
    if depth > MAX_DEPTH:
        raise BadRequest(f"{where} nests deeper than {MAX_DEPTH} levels")
    if value is None or type(value) in (bool, int, float, str):
        return value
    for kind in (str, int, float):  # enumerations and the like: the value, without the class
        if isinstance(value, kind):
            return kind.__str__(value) if kind is str else kind(value)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise BadRequest(f"{where} has the key {str(key)[:40]!r}; keys must be strings")
        return {str(key): plain_json(item, f"{where}.{key}", depth + 1) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [plain_json(item, f"{where}[{index}]", depth + 1) for index, item in enumerate(value)]
    raise BadRequest(
        f"{where} is a {type(value).__name__}; give text, a number, true, false, null, a list or a dict"
    )


def check_messages(messages: object) -> list[dict[str, Any]]:
    """Copies of the messages as templates expect them.

    A message is a dict with a role and a content; content is text or a list of text parts. An assistant's
    content may be missing when it calls tools or thinks. Keys whose value is None are left out, and
    reasoning is put under the name that templates read, as transformers does.
    """
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
        raise BadRequest(f"messages must be a list of dicts, got {type(messages).__name__}")
    if not messages:
        raise BadRequest("messages must hold at least one message, got none")
    return [_check_message(message, f"messages[{index}]") for index, message in enumerate(messages)]


def _check_message(message: object, where: str) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise BadRequest(f"{where} must be a dict with role and content, got {type(message).__name__}")
    plain: dict[str, Any] = {
        key: value for key, value in plain_json(message, where).items() if value is not None
    }
    role = plain.get("role")
    if not isinstance(role, str) or not role:
        raise BadRequest(f"{where}.role must be text such as 'user', got {brief(role)}")
    content = plain.get("content")
    if content is None:
        if role != "assistant" or not any(plain.get(key) for key in ("tool_calls", *REASONING_FIELDS)):
            raise BadRequest(f"{where}.content must be text or a list of text parts, got nothing")
    elif isinstance(content, list):
        for index, part in enumerate(content):
            _check_part(part, f"{where}.content[{index}]")
    elif not isinstance(content, str):
        raise BadRequest(f"{where}.content must be text or a list of text parts, got {brief(content)}")
    reasoning = next((plain[key] for key in REASONING_FIELDS if key in plain), None)
    return plain if reasoning is None else {"thinking": reasoning, **plain, "reasoning_content": reasoning}


def _check_part(part: Any, where: str) -> None:
    if (
        not isinstance(part, dict)
        or part.get("type", "text") != "text"
        or not isinstance(part.get("text"), str)
    ):
        raise BadRequest(f'{where} must be {{"type": "text", "text": ...}}, got {brief(part)}')


def check_dicts(values: object, name: str) -> list[dict[str, Any]] | None:
    """A list of JSON objects (tools, documents), or None."""
    if values is None:
        return None
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Sequence):
        raise BadRequest(f"{name} must be a list of dicts, got {type(values).__name__}")
    for index, value in enumerate(values):
        if not isinstance(value, Mapping):
            raise BadRequest(f"{name}[{index}] must be a dict, got {type(value).__name__}")
    plain: list[dict[str, Any]] = plain_json(values, name)
    return plain


def join_parts(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Content given in parts as one text, a part a line, for templates that know only text."""
    return [
        {**message, "content": "\n".join(part["text"] for part in message["content"])}
        if isinstance(message.get("content"), list)
        else message
        for message in messages
    ]


def texts_of(value: Any) -> Iterator[str]:
    """Every text in JSON, keys aside."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts_of(item)


def map_text(value: Any, change: Callable[[str], str]) -> Any:
    """A copy of JSON with every text in it changed; keys stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [map_text(item, change) for item in value]
    if isinstance(value, dict):
        return {key: map_text(item, change) for key, item in value.items()}
    return value
