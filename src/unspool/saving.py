"""Sessions as front doors save and load them: files on the caller's thread, the engine between two steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict

from unspool.asking import How, Message, Tool, chat_request_of, request_of
from unspool.engine.prompt import Prompt
from unspool.errors import BadRequest
from unspool.kv.session import Session
from unspool.kv.session_file import read_session, write_session
from unspool.light_dataclass import dataclass
from unspool.params import DecodingParams
from unspool.read_only import ReadOnly
from unspool.types import Request

if TYPE_CHECKING:
    from unspool.door import Door
    from unspool.engine.worker import Worker

# The answer is not wanted: its one token is chosen from the logits of the last row and never fed.
_READ: Final = DecodingParams(temperature=0, max_tokens=1, ignore_eos=True)


class Keeping(TypedDict, total=False):
    """How a session is saved.

    note             any JSON object to keep with it; `load_session` gives it back
    compute_missing  False: save what is cached of the text, and do not read the rest of it first
    cache_salt       whose text it is: see `unspool.asking.Options`
    """

    note: Mapping[str, Any]
    compute_missing: bool
    cache_salt: str | None


@dataclass(frozen=True, slots=True)
class SavedText:
    """What a session file holds, but for the keys and values themselves."""

    token_ids: tuple[int, ...]  # those that need not be read again
    note: Mapping[str, Any]  # what was kept with them
    n_bytes: int  # of keys and values

    @classmethod
    def of(cls, session: Session) -> SavedText:
        return cls(tuple(session.token_ids.tolist()), ReadOnly(session.note), session.values.nbytes)


def save_text(door: Door, path: str | Path, prompt: Prompt, how: Keeping) -> SavedText:
    """Write the keys and values of a text; of no text, a file with nothing but its note."""
    _check(how)
    salt = how.get("cache_salt")
    if not len(prompt):
        return _save(door._worker, path, Request((), _READ, salt=salt), how)
    asked = request_of(door.tokenizer, prompt, _READ, How(cache_salt=salt))
    return _save(door._worker, path, asked, how)


def save_chat(
    door: Door,
    path: str | Path,
    messages: Sequence[Message],
    how: Keeping,
    *,
    tools: Sequence[Tool] | None,
    template_variables: Mapping[str, Any] | None,
) -> SavedText:
    """Write the keys and values of a conversation."""
    _check(how)
    asked = chat_request_of(
        door.chat_template,
        messages,
        _READ,
        How(cache_salt=how.get("cache_salt")),
        tools=tools,
        continue_final_message=bool(messages) and messages[-1].get("role") == "assistant",
        template_variables=template_variables,
    )
    return _save(door._worker, path, asked, how)


def load(door: Door, path: str | Path, cache_salt: str | None) -> SavedText:
    """Have the engine know the text of a session file; all of it, or a typed error and nothing."""
    worker, salt = door._worker, How(cache_salt=cache_salt).cache_salt
    sessions = worker.engine.sessions
    session = read_session(path, worker.call(lambda: sessions.identity))
    worker.call(partial(sessions.restore, session, salt=salt))
    return SavedText.of(session)


def _save(worker: Worker, path: str | Path, asked: Request, how: Keeping) -> SavedText:
    sessions, ids = worker.engine.sessions, asked.prompt_ids
    known = partial(sessions.n_known, ids, salt=asked.salt)
    if how.get("compute_missing", True) and worker.call(known) < len(ids):
        # One token of the context is for an answer, so the last of a text that fills it stays unread.
        fills_context = len(ids) == worker.engine.context_length > 1
        ((*_, last),) = worker.complete([replace(asked, prompt_ids=ids[:-1]) if fills_context else asked])
        if last.error is not None:
            raise last.error
    session = worker.call(partial(sessions.read, ids, salt=asked.salt, note=how.get("note", {})))
    write_session(path, session)
    return SavedText.of(session)


def _check(how: Keeping) -> None:
    unknown = sorted(how.keys() - Keeping.__annotations__.keys())
    if unknown:
        raise BadRequest(
            f"a session is saved with {', '.join(Keeping.__annotations__)}, got {unknown[0]!r}",
            code="bad_session",
        )
    if not isinstance(compute := how.get("compute_missing", True), bool):
        raise BadRequest(
            f"compute_missing must be True or False, got {compute!r}", code="bad_compute_missing"
        )
