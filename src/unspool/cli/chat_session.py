"""A conversation without a terminal: what was said, how to go on, and the commands that change it.

The last turn has no answer yet while one is being written, and stays so when the model refused it (a
context that is too long, for example): `/retry` asks again, a new message takes its place.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import closing
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unspool.cli.chat_given import Given, named, overruled
from unspool.cli.chat_search import meant_by
from unspool.cli.contrast import USUAL_BETA
from unspool.cli.decoding import REPORTS, Decoding, refuse_reports
from unspool.cli.interrupts import seeded, until_interrupted
from unspool.cli.typed import read_value
from unspool.errors import BadRequest
from unspool.light_dataclass import dataclass

if TYPE_CHECKING:
    from unspool.llm import LLM
    from unspool.params import DecodingParams
    from unspool.search.base import Search
    from unspool.types import Event


@dataclass(slots=True)
class Turn:
    """What the user said and what the model answered, possibly cut short; None before there is an answer."""

    user: str
    assistant: str | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """What a conversation was written with: names, as they were typed. The amateur's may not be known."""

    model: str
    amateur: str | None

    def options(self, *, is_contrasted: bool) -> str:
        """What to type to have the same again."""
        return f"--model {self.model}" + (f" --amateur {self.amateur or 'MODEL'}" if is_contrasted else "")

    def others(self, session: ChatSession) -> str:
        """What the conversation does not go on with; empty where that is nothing."""
        parts = []
        if self.model != session.model:
            parts.append(f"it was written with {self.model}; {session.model} goes on")
        if self.amateur not in (None, session.amateur) and session.params.contrast_beta:
            what = "no second model is here" if session.amateur is None else f"{session.amateur} goes on"
            parts.append(f"it was contrasted with {self.amateur}; {what}")
        return "\n".join(parts)


@dataclass(frozen=True, slots=True)
class Looks:
    """How a file says that answers are looked for; None samples them."""

    search: Search | None = None
    is_told: bool = False  # whether it says so


@dataclass(slots=True)
class ChatSession:
    """The state of a chat. Commands live in `chat_commands`, files in `chat_file`, the terminal in `chat`."""

    model: str
    decoding: Decoding
    system: str | None = None
    chosen: Search | None = None  # how somebody said that answers are looked for; None samples them
    is_chosen: bool = False  # whether somebody said so; the profile does otherwise
    is_of_file: bool = False  # whether a file said so, which gives way to a profile that is named later
    amateur: str | None = None  # the second model to contrast with, where there is one
    given: Given = field(default_factory=Given)  # what the command line said, which wins over files
    origin: Written | None = None  # what the conversation of a file was written with
    told_of_file: str = ""  # what else there is to say of it, line by line
    turns: list[Turn] = field(default_factory=list)
    last: Event | None = None  # the final event of the last complete answer
    n_answers: int = 0
    n_prompt_tokens: int = 0  # of all answers
    n_completion_tokens: int = 0

    @property
    def params(self) -> DecodingParams:
        return self.decoding.params

    @property
    def asked(self) -> dict[str, Any]:
        """Parameters and search, as a request has them; drawing is silent where the search draws nothing.
        Raises BadRequest for what a profile or a file brought and cannot be asked for here."""
        self._check(self.decoding)
        search = self.search
        return {"params": self.asked_params} | ({} if search is None else {"search": search})

    @property
    def search(self) -> Search | None:
        """How answers are looked for; None samples them."""
        return self._search(self.decoding)

    @property
    def asked_params(self) -> DecodingParams:
        """The parameters without what is about draws where the search draws nothing."""
        return self._params(self.decoding)

    def _search(self, decoding: Decoding) -> Search | None:
        return self.chosen if self.is_chosen else meant_by(decoding)

    def _params(self, decoding: Decoding) -> DecodingParams:
        return decoding.for_search(self._search(decoding)).params

    def _check(self, decoding: Decoding) -> None:
        """Raise BadRequest for what cannot be asked for here."""
        self._refuse_contrast(decoding.params)
        decoding.searched_by(self._search(decoding))

    def say(self, text: str) -> None:
        """The user's next message; it takes the place of one that was refused."""
        if not text.strip():
            raise BadRequest("the message is empty; say something, or /help", code="empty_prompt")
        if self.turns and self.turns[-1].assistant is None:
            self.turns.pop()
        self.turns.append(Turn(text))

    def messages(self) -> list[dict[str, str]]:
        """The conversation as a chat template takes it, up to the message that waits for its answer."""
        messages = [] if self.system is None else [{"role": "system", "content": self.system}]
        for turn in self.turns:
            messages.append({"role": "user", "content": turn.user})
            if turn.assistant is not None:
                messages.append({"role": "assistant", "content": turn.assistant})
        return messages

    def answer(self, llm: LLM) -> Generator[Event, None, None]:
        """Stream the answer to the last message and keep it.

        When the consumer stops early, is interrupted, or the model fails half way, what was written by
        then is kept. When nothing was written, the message stays without an answer. After Ctrl-C the last
        event has the finish reason "cancelled", and KeyboardInterrupt is raised behind it; that of a
        search may have the seed alone.
        """
        turn = self.turns[-1]
        assert turn.assistant is None, "the last message has its answer"
        written, asked, is_search = "", self.asked, self.search is not None
        if is_search:
            asked["params"] = seeded(asked["params"], self.search)
        stream, seed = llm.stream_chat(self.messages(), **asked), asked["params"].seed
        try:
            with closing(until_interrupted(stream, is_search=is_search, seed=seed)) as events:
                for event in events:
                    written += event.text
                    if event.error is not None:
                        raise event.error
                    if event.finish_reason not in (None, "cancelled"):
                        turn.assistant = written  # even when it is empty: that was the answer
                        self._count(event)
                    yield event
        finally:
            turn.assistant = written or turn.assistant

    def _count(self, event: Event) -> None:
        assert event.usage is not None
        self.last = event
        self.n_answers += 1
        self.n_prompt_tokens += event.usage.prompt_tokens
        self.n_completion_tokens += event.usage.completion_tokens

    def clear(self) -> None:
        self.turns.clear()

    def undo(self) -> Turn:
        """Take back the last message and its answer."""
        if not self.turns:
            raise BadRequest("nothing was said yet, so there is nothing to undo")
        return self.turns.pop()

    def retry(self) -> None:
        """Forget the last answer, so that `answer` writes another."""
        if not self.turns:
            raise BadRequest("nothing was said yet, so there is nothing to retry")
        self.turns[-1].assistant = None

    def forget(self, n_turns: int) -> int:
        """Drop the oldest turns to make room in the context; the message that waits stays."""
        waiting = bool(self.turns) and self.turns[-1].assistant is None
        n_can = len(self.turns) - waiting
        if not 1 <= n_turns <= n_can:
            can = f"can forget 1 to {n_can} of the oldest turns" if n_can else "there is no turn to forget"
            raise BadRequest(f"{can}, got {n_turns}; /clear forgets all")
        del self.turns[:n_turns]
        return n_turns

    def set_param(self, name: str, value: str) -> None:
        """Change one decoding parameter; `default` restores it. Raises BadRequest and changes nothing."""
        if value == "default":
            changed = self.decoding.without(name)
        else:
            changed = self.decoding.setting(**{name: read_value(name, value)})
        refuse_reports(changed.params, REPORTS, "`unspool explain` and `unspool run --json` print it")
        self._check(changed)
        self.decoding, self.given = changed, self.given.without(name)

    def use_profile(self, name: str) -> None:
        """Go on under another profile; what was typed stays over it. Raises BadRequest."""
        changed = self.decoding.under(name)
        before, self.is_chosen = self.is_chosen, self.is_chosen and not self.is_of_file
        try:
            self._check(changed)
        except BadRequest:
            self.is_chosen = before
            raise
        self.decoding, self.given = changed, self.given.without_profile()

    def set_system(self, text: str | None) -> None:
        self.system, self.given = text, self.given.without_system()

    def take_over(
        self, turns: list[Turn], system: str | None, params: DecodingParams, looks: Looks, origin: Written
    ) -> None:
        """Go on with the conversation of a file, as the command line says where it says anything. All or
        nothing: raises BadRequest where parameters do not go together."""
        given, decoding = self.given, self.given.over(self.decoding.with_params(params))
        if self.amateur is not None and not decoding.params.contrast_beta:
            decoding = decoding.setting(contrast_beta=USUAL_BETA)
        chosen = self.chosen, self.is_chosen, self.is_of_file
        if given.is_search or (looks.is_told and given.profile is not None):
            chosen = given.search, given.is_search, False
        elif looks.is_told:
            chosen = looks.search, True, True
        decoding.searched_by(chosen[0] if chosen[1] else meant_by(decoding))
        self.chosen, self.is_chosen, self.is_of_file = chosen
        self.turns, self.decoding, self.origin = turns, decoding, origin
        self.system = system if given.system is None else given.system
        wins = overruled(given, decoding.params, params)
        if looks.is_told and self.search != looks.search:
            wins.append(f"search = {named(self.search)} (not {named(looks.search)})")
        if self.system != system:
            wins.append("the system message")
        lines = [f"the command line wins over the file: {', '.join(wins)}"] if wins else []
        lines += [f"search: {named(self.search)}"] if self.search is not None else []
        self.told_of_file = "\n".join([*lines, *([others] if (others := origin.others(self)) else [])])

    def _refuse_contrast(self, params: DecodingParams) -> None:
        if params.contrast_beta > 0 and self.amateur is None:
            amateur = (self.origin and self.origin.amateur) or "MODEL"
            raise BadRequest(
                f"contrast_beta={params.contrast_beta:g} needs a second model, and this chat has none; begin "
                f"it with --amateur {amateur}, or /set contrast_beta 0",
                code="no_amateur",
            )


def expand_path(text: str) -> Path:
    if not text:
        raise BadRequest("give a file name after the command")
    return Path(os.path.expanduser(text))  # unlike Path's it leaves the ~ of a stranger as it is
