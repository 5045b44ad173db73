"""Conversations on disk: one JSON object with a version, written whole or not at all.

    {"format": "unspool-chat", "version": 2, "model": NAME, "amateur": NAME or null, "system": TEXT or null,
     "params": {...}, "search": {"name": NAME, SETTING: VALUE, ...},
     "messages": [{"role": "user" or "assistant", "content": TEXT}, ...]}

Roles alternate, beginning with the user; the last message may wait for its answer. Both names are as they
were typed: they say what to give again, and no file has a model loaded. Version 1 had no amateur and no
search.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unspool.cli.chat_search import read, written
from unspool.cli.chat_session import ChatSession, Looks, Turn, Written
from unspool.cli.param_words import DEFAULTS, shown
from unspool.cli.typed import option
from unspool.errors import BadRequest, ParameterConflict, UnspoolError, brief, reason
from unspool.kv.session_file import MAGIC as SESSION_MAGIC
from unspool.whole_file import whole_file

FORMAT = "unspool-chat"
VERSION = 2
MAX_BYTES = 64 << 20
_HEAD_BYTES = 4096
_NEW = frozenset({"amateur", "search"})  # in version 2
_NAMES = _NEW | {"format", "version", "model", "system", "params", "messages"}


def content_of(session: ChatSession) -> dict[str, Any]:
    """The conversation as such an object."""
    # No profile is in the file. Whoever loads it would be refused draws beside the search, so they are left
    # out; of the usual profile they give way by themselves.
    params = session.params if session.decoding.is_default else session.asked_params
    messages = []
    for turn in session.turns:
        messages.append({"role": "user", "content": turn.user})
        if turn.assistant is not None:
            messages.append({"role": "assistant", "content": turn.assistant})
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": session.model,
        "amateur": _amateur_of(session),
        "system": session.system,
        "params": params.to_dict(),
        "search": written(session.search),
        "messages": messages,
    }


def _amateur_of(session: ChatSession) -> str | None:
    if not session.params.contrast_beta:
        return None
    return session.amateur or (None if session.origin is None else session.origin.amateur)


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


def load(session: ChatSession, path: Path) -> Written:
    """Take over the conversation of a file. All or nothing; returns what it was written with."""
    return take_over(session, _read(path), path)


def take_over(session: ChatSession, content: Mapping[str, Any], path: Path) -> Written:
    """What `load` does, for an object that was read from the file by other means."""
    from unspool.params import DecodingParams

    if content.get("format") != FORMAT:
        raise _bad(path, "format", content.get("format"), f"must be {FORMAT!r}: not a saved chat")
    version = content.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise _bad(path, "version", version, f"must be 1 or {VERSION}; another unspool wrote it")
    if unknown := sorted(content.keys() - (_NAMES if version > 1 else _NAMES - _NEW)):
        raise _bad(path, unknown[0], content[unknown[0]], "has no place in a saved chat; take it out")
    amateur = content.get("amateur")
    if amateur is not None and not isinstance(amateur, str):
        raise _bad(path, "amateur", amateur, "must be a text or null")
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
    turns, looks, origin = _turns(path, content.get("messages")), Looks(), Written(model, amateur)
    if version > 1:
        try:
            looks = Looks(read(content.get("search")), is_told=True)
        except BadRequest as error:
            raise BadRequest(f"{path}: search: {error}", code="chat_file") from error
    try:
        session.take_over(turns, system, checked, looks, origin)
    except ParameterConflict as conflict:
        if (told := _of_file(conflict, session, path)) is None:
            raise
        raise told from conflict
    return origin


def _of_file(conflict: ParameterConflict, session: ChatSession, path: Path) -> ParameterConflict | None:
    """A conflict over what the file says and nobody typed, with how the command line would say otherwise;
    None for another."""
    name = next((name for name in conflict.names if name not in session.given.typed), None)
    if name is None or name not in DEFAULTS or session.given.profile is not None:
        return None
    return conflict.ending(
        f"{name} is of {path}: begin the chat with {option(name)} {shown(DEFAULTS[name])}, or with another "
        "--search"
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise BadRequest(f"cannot load {path}: {reason(error)}; check the name", code="chat_file") from error
    if data.startswith(SESSION_MAGIC):
        raise BadRequest(
            f"{path} is a session file, and no conversation that /save wrote; `unspool chat --session "
            f"{path}` goes on with it",
            code="chat_file",
        )
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


def is_saved_chat(path: Path) -> bool:
    """Whether /save wrote this file, by how it begins."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES).lstrip()
        return head.startswith(b"{") and FORMAT.encode() in head
    except (OSError, ValueError):
        return False


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
