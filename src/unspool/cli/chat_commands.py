"""The slash commands of a chat: a line in, an outcome out; nothing is printed here."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Literal

from unspool.cli import chat_file
from unspool.cli.answer import spelled
from unspool.cli.chat_session import ChatSession, expand_path
from unspool.cli.figures import figures_line
from unspool.cli.param_words import shown
from unspool.errors import BadRequest
from unspool.light_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the terminal does next: show `text`, have the last message answered, or leave."""

    text: str = ""
    then: Literal["prompt", "answer", "leave"] = "prompt"


def handle(session: ChatSession, line: str) -> Outcome:
    """Run one line of input. `//` at the start says a message that begins with a slash. Raises BadRequest."""
    if not line.startswith("/") or line.startswith("//"):
        session.say(line.removeprefix("/"))
        return Outcome(then="answer")
    name, _, argument = line[1:].partition(" ")
    command = COMMANDS.get(name.strip().lower())
    if command is None:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean /{near[0]}?" if near else "/help lists them"
        raise BadRequest(f"there is no command /{name}; {hint}", code="unknown_command")
    argument = argument.strip()
    if argument and not command.takes:
        raise BadRequest(f"/{name} takes nothing after it, got {argument!r}", code="bad_command")
    return command.run(session, argument)


def _help(_session: ChatSession, _argument: str) -> Outcome:
    rows = [(f"/{name} {command.takes}".strip(), command.help) for name, command in COMMANDS.items()]
    width = max(len(left) for left, _ in rows)
    lines = [f"{left.ljust(width)}  {right}" for left, right in rows if right]
    lines.append('A line that ends in \\ goes on in the next; """ opens and closes a longer text.')
    lines.append("Ctrl-C stops an answer, Ctrl-D leaves. // begins a message with a slash.")
    return Outcome("\n".join(lines))


def _set(session: ChatSession, argument: str) -> Outcome:
    name, _, value = argument.partition(" ")
    if "=" in name:  # as --set takes it
        name, _, value = argument.partition("=")
    value = value.strip()
    values = session.params.to_dict()
    if not name:
        return Outcome("\n".join(f"{key} = {shown(held)}" for key, held in values.items()))
    name = name.replace("-", "_")
    if not value and name in values:
        return Outcome(f"{name} = {shown(values[name])}")
    session.set_param(name, value or "default")  # a name that is not there raises, and suggests the nearest
    return Outcome("\n".join([f"{name} = {shown(getattr(session.params, name))}", *session.decoding.notes()]))


def _profile(session: ChatSession, argument: str) -> Outcome:
    if argument:
        session.use_profile(argument)
    decoding = session.decoding
    lines = [f"profile {decoding.profile_label}: {decoding.profile.description}"]
    if session.search is not None:
        lines.append(f"search: {spelled(session.search)}")
    if decoding.typed:
        over = ", ".join(f"{name} = {shown(value)}" for name, value in decoding.typed.items())
        lines.append(f"set over it: {over} (/set NAME default takes one back)")
    return Outcome("\n".join([*lines, *decoding.notes()]))


def _system(session: ChatSession, argument: str) -> Outcome:
    if not argument:
        return Outcome(f"system: {session.system}" if session.system is not None else "no system message")
    if argument == "none":
        session.set_system(None)
        return Outcome("no system message from here on")
    session.set_system(argument)
    return Outcome("system message set")


def _save(session: ChatSession, argument: str) -> Outcome:
    path = expand_path(argument)
    chat_file.save(session, path)
    return Outcome(f"saved {_turns(len(session.turns))} to {path}")


def _load(session: ChatSession, argument: str) -> Outcome:
    path = expand_path(argument)
    chat_file.load(session, path)
    text = f"loaded {_turns(len(session.turns))} from {path}, with the system message and parameters"
    return Outcome(f"{text}\n{session.told_of_file}".rstrip())


def _clear(session: ChatSession, _argument: str) -> Outcome:
    session.clear()
    return Outcome("conversation cleared; system message and parameters stay")


def _undo(session: ChatSession, _argument: str) -> Outcome:
    session.undo()
    return Outcome(f"took back the last turn; {_turns(len(session.turns))} left")


def _retry(session: ChatSession, _argument: str) -> Outcome:
    again = bool(session.turns) and session.turns[-1].assistant is not None
    session.retry()
    text = ""
    if again and (session.params.is_greedy or session.params.seed is not None):
        why = (
            "temperature is 0 (/set temperature 0.8)"
            if session.params.is_greedy
            else "seed is set (/set seed none)"
        )
        text = f"the same text will come again if nothing else has changed: {why}"
    return Outcome(text, then="answer")


def _forget(session: ChatSession, argument: str) -> Outcome:
    try:
        n_turns = int(argument or "1")
    except ValueError:
        raise BadRequest(
            f"/forget takes a number of turns, got {argument!r}; /clear forgets all", code="bad_command"
        ) from None
    session.forget(n_turns)
    return Outcome(f"forgot the oldest {_turns(n_turns)}; {_turns(len(session.turns))} left")


def _stats(session: ChatSession, _argument: str) -> Outcome:
    if session.last is None:
        return Outcome("no complete answer yet")
    last = figures_line(session.last, session.decoding.shown_profile)
    return Outcome(
        f"{session.n_answers} complete answer{'' if session.n_answers == 1 else 's'}, "
        f"{session.n_prompt_tokens} prompt and "
        f"{session.n_completion_tokens} answer tokens\nlast: {last}"
    )


def _leave(_session: ChatSession, _argument: str) -> Outcome:
    return Outcome(then="leave")


def _turns(n: int) -> str:
    return f"{n} turn{'' if n == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class _Command:
    run: Callable[[ChatSession, str], Outcome]
    takes: str  # what may follow the name; empty for nothing
    help: str  # empty for a second name that /help leaves out


COMMANDS = {
    "help": _Command(_help, "", "this list"),
    "set": _Command(_set, "[NAME [VALUE]]", "show or change decoding parameters; VALUE default resets one"),
    "profile": _Command(_profile, "[NAME]", "show the profile, or switch to another; what was set stays"),
    "system": _Command(_system, "[TEXT]", "show or change the system message; none removes it"),
    "undo": _Command(_undo, "", "take back the last message and its answer"),
    "retry": _Command(_retry, "", "have the last message answered again"),
    "forget": _Command(_forget, "[N]", "drop the N oldest turns to make room in the context"),
    "clear": _Command(_clear, "", "start over"),
    "save": _Command(_save, "FILE", "write the conversation to a file"),
    "load": _Command(_load, "FILE", "go on with a saved conversation"),
    "stats": _Command(_stats, "", "tokens and speeds"),
    "exit": _Command(_leave, "", "leave"),
    "quit": _Command(_leave, "", ""),
}
