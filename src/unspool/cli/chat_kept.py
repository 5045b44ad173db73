"""A conversation that lives in a session file: its messages, and the keys and values of what was read.

The messages are written after every answer, which takes no time; keys and values, which may be gigabytes,
once at the end. Who is killed before it has all that was said, and has it read again.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unspool.cli import chat_file
from unspool.cli.chat_session import ChatSession
from unspool.cli.names import as_typed
from unspool.errors import BadRequest, CapacityError, ContextOverflow, SessionFileError
from unspool.whole_file import folder_problem

if TYPE_CHECKING:
    from unspool.kv.session import KvIdentity
    from unspool.llm import LLM
    from unspool.models.identity import ModelIdentity

_CHAT = "chat"  # what the conversation is called in the note of a session


class KeptChat:
    """`begin` before there is a model, `check` once it is known which, `restore` with it, `keep` after each
    turn, `end` at the end."""

    def __init__(self, session: ChatSession, name: str) -> None:
        if not name:
            raise BadRequest("--session takes the name of a file, got ''", code="bad_session")
        self._session = session
        self.path = Path(os.path.expanduser(name))
        self._identity: KvIdentity | None = None  # whose keys and values the file has, if it is there
        self._written: dict[str, Any] = {}  # the conversation as the file has it
        self._ended: dict[str, Any] = {}  # the conversation that the file has keys and values of

    @property
    def is_there(self) -> bool:
        return self.path.exists()

    def begin(self) -> str:
        """Take over the conversation of the file, if there is one; what to tell about it."""
        if not self.is_there:
            if problem := folder_problem(self.path):  # told before there is an answer to lose
                raise BadRequest(
                    f"--session {self.path}: {problem}; make it, or name another", code="bad_session"
                )
            self._written = self._ended = chat_file.content_of(self._session)
            return f"{self.path} is new: the conversation will be kept there"
        if chat_file.is_saved_chat(self.path):
            raise BadRequest(
                f"{self.path} is a conversation that /save wrote, and no session file; --load {self.path} "
                "goes on with it",
                code="bad_session",
            )
        from unspool.kv.session_file import read_header

        header = read_header(self.path)
        content = header.note.get(_CHAT)
        if not isinstance(content, dict):
            raise BadRequest(
                f"{self.path} is a session without a conversation, so a chat cannot go on with it; "
                "LLM.load_session loads it",
                code="no_conversation",
            )
        chat_file.take_over(self._session, content, self.path)
        self._written = self._ended = chat_file.content_of(self._session)
        n_turns = len(self._session.turns)
        self._identity = header.identity
        told = f"going on with {n_turns} turn{'' if n_turns == 1 else 's'} from {self.path}"
        return f"{told}\n{self._session.told_of_file}".rstrip()

    def check(self, model: ModelIdentity) -> None:
        """SessionFileError for a model that the file is not of, before it is loaded."""
        if self._identity is None:
            return
        from unspool.kv.session import check_model

        try:
            check_model(self.path, self._identity, model.name, model.sha256)
        except SessionFileError as error:
            raise self._of_another(error) from None

    def restore(self, llm: LLM) -> str:
        """Have the model know what it had read. SessionFileError for another model's; what to tell.

        The conversation goes on when only its keys and values cannot be used: it is then read again.
        """
        if not self.is_there:
            return ""
        try:
            n_tokens = len(llm.load_session(self.path).token_ids)
        except SessionFileError as error:
            if error.code == "session_mismatch":
                raise self._of_another(error) from None
            if error.code != "session_stale":
                raise
            return f"note: {as_typed(error)}; until then the conversation is read again"
        except (CapacityError, ContextOverflow) as error:
            return f"note: {as_typed(error)}; until then the conversation is read again"
        return f"{n_tokens} tokens need not be read again"

    def _of_another(self, error: SessionFileError) -> SessionFileError:
        """The same, with the options of the model that the file is of."""
        if (origin := self._session.origin) is None:
            return error
        options = origin.options(is_contrasted=origin.amateur is not None)
        return SessionFileError(error.path, error.field, f"{error.problem} ({options})", code=error.code)

    def keep(self, llm: LLM) -> None:
        """Write the messages, if they have changed."""
        content = chat_file.content_of(self._session)
        if content != self._written:
            self._written = (
                content  # before it is: what cannot be written is told once, and not at every line
            )
            llm.save_session(self.path, (), note={_CHAT: content})

    def end(self, llm: LLM) -> str:
        """Write the conversation with its keys and values, if it has changed; what to tell."""
        content = chat_file.content_of(self._session)
        if content == self._ended:
            return ""
        messages = self._session.messages()
        while messages and messages[-1]["role"] != "assistant":
            messages.pop()  # it waits for its answer, and was perhaps never read
        note = {_CHAT: content}
        if messages:
            saved = llm.save_chat_session(self.path, messages, note=note, compute_missing=False)
        else:
            saved = llm.save_session(self.path, (), note=note)
        self._written = self._ended = content
        return f"kept in {self.path}, {len(saved.token_ids)} tokens need not be read again"
