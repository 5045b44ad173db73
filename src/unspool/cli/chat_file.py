"""Conversations on disk: one JSON object with a version, written whole or not at all.

    {"format": "unspool-chat", "version": 1, "model": NAME, "system": TEXT or null,
     "params": {...}, "messages": [{"role": "user" or "assistant", "content": TEXT}, ...]}

Roles alternate, beginning with the user; the last message may wait for its answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unspool.cli.chat_session import ChatSession, Turn
from unspool.errors import BadRequest, UnspoolError, brief, reason
from unspool.whole_file import whole_file

FORMAT = "unspool-chat"
VERSION = 1
MAX_BYTES = 64 << 20


def content_of(session: ChatSession) -> dict[str, Any]:
    """The conversation as such an object."""
    messages = []
    for turn in session.turns:
        messages.append({"role": "user", "content": turn.user})
        if turn.assistant is not None:
            messages.append({"role": "assistant", "content": turn.assistant})
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": session.model,
        "system": session.system,
        "params": session.params.to_dict(),
        "messages": messages,
    }


def save(session: ChatSession, path: Path) -> None:
    """Write the conversation to its file."""
    text = json.dumps(content_of(session), ensure_ascii=False, indent=2) + "\n"
    try:
        with whole_file(path) as file:
            file.write(text.encode())
    except (OSError, ValueError) as error:
        raise UnspoolError(
            f"cannot save {path}: {reason(error)}; choose another file", code="chat_file"
        ) from error


def load(session: ChatSession, path: Path) -> str | None:
    """Take over the conversation of a file. All or nothing; returns the model's name if it is another."""
    return take_over(session, _read(path), path)


def take_over(session: ChatSession, content: Mapping[str, Any], path: Path) -> str | None:
    """What `load` does, for an object that was read from the file by other means."""
    from unspool.params import DecodingParams

    if content.get("format") != FORMAT:
        raise _bad(path, "format", content.get("format"), f"must be {FORMAT!r}: not a saved chat")
    if content.get("version") != VERSION:
        raise _bad(path, "version", content.get("version"), f"must be {VERSION}; another unspool wrote it")
    system, model, params = content.get("system"), content.get("model"), content.get("params")
    if system is not None and not isinstance(system, str):
        raise _bad(path, "system", system, "must be a text or null")
    if not isinstance(model, str):
        raise _bad(path, "model", model, "must be a text")
    if not isinstance(params, dict):
        raise _bad(path, "params", params, "must be an object")
    try:
        checked = DecodingParams.from_dict(params)
    except BadRequest as error:
        raise BadRequest(f"{path}: params: {error}", code="chat_file") from error
    turns = _turns(path, content.get("messages"))
    session.system, session.decoding, session.turns = system, session.decoding.with_params(checked), turns
    return model if model != session.model else None


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise BadRequest(f"cannot load {path}: {reason(error)}; check the name", code="chat_file") from error
    if len(data) > MAX_BYTES:
        raise BadRequest(
            f"{path} has more than {MAX_BYTES} bytes; this is not a saved chat", code="chat_file"
        )
    try:
        content = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadRequest(
            f"{path} is not JSON ({error}); /save writes such files", code="chat_file"
        ) from error
    if not isinstance(content, dict):
        raise BadRequest(f"{path} is not a saved chat; /save writes such files", code="chat_file")
    return content


def _turns(path: Path, messages: Any) -> list[Turn]:
    if not isinstance(messages, list):
        raise _bad(path, "messages", messages, "must be a list")
    turns: list[Turn] = []
    for index, message in enumerate(messages):
        role = "assistant" if index % 2 else "user"
        if not isinstance(message, dict) or message.get("role") != role:
            raise _bad(path, f"messages[{index}]", message, f"must have the role {role!r}")
        if not isinstance(message.get("content"), str):
            raise _bad(path, f"messages[{index}].content", message.get("content"), "must be a text")
        if index % 2:
            turns[-1].assistant = message["content"]
        else:
            turns.append(Turn(message["content"]))
    return turns


def _bad(path: Path, name: str, value: object, rule: str) -> BadRequest:
    return BadRequest(f"{path}: {name} is {brief(value)} and {rule}", code="chat_file")
