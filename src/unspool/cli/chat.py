"""`unspool chat`: the terminal around a ChatSession, or a script of lines through a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from unspool.cli.answer import NEEDS
from unspool.cli.decoding import REPORTS, Decoding
from unspool.cli.decoding_options import with_decoding_options
from unspool.cli.model_options import ModelOptions
from unspool.cli.names import as_typed
from unspool.cli.options import with_model_options
from unspool.cli.run import MustContain
from unspool.cli.text import checked, decoded, write
from unspool.errors import BadRequest, ContextOverflow, TemplateError, UnspoolError

if TYPE_CHECKING:
    from unspool.cli.chat_session import ChatSession
    from unspool.llm import LLM

FENCE = '"""'


@with_decoding_options(leave_out=REPORTS, has=NEEDS)
@with_model_options
def chat(
    *,
    model: ModelOptions,
    system: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A system message; /system changes it.")
    ] = None,
    load: Annotated[
        str | None, typer.Option(metavar="FILE", help="Go on with a conversation that /save wrote.")
    ] = None,
    session_file: Annotated[
        str | None,
        typer.Option(
            "--session",
            metavar="FILE",
            help="Keep the conversation in a file, and what the model has read of it: go on with it when it "
            "is there, and save it after each answer and at the end.",
        ),
    ] = None,
    search: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:SETTING=VALUE,...]",
            help="How an answer is looked for, as in `unspool run`; one answer, the best, goes on. "
            "[default: the profile's, else sample]",
        ),
    ] = None,
    must_contain: MustContain = None,
    decoding: Decoding,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No greeting and no figures.")] = False,
) -> None:
    """Talk with a model. /help lists the commands.

    Ctrl-C stops an answer and keeps what was written, Ctrl-D leaves. Through a pipe every line is a
    message or a command, answers go to standard output, and the first error ends the script.
    """
    from unspool.cli.chat_begin import begin
    from unspool.cli.chat_given import Given
    from unspool.cli.chat_kept import KeptChat
    from unspool.cli.chat_search import typed_search
    from unspool.cli.chat_session import ChatSession
    from unspool.cli.line_editor import terminal_lines
    from unspool.cli.load import can_chat

    system = None if system is None else checked(system, "--system")
    looks, is_chosen = typed_search(search, must_contain or ()), search is not None or bool(must_contain)
    session = ChatSession(
        model.name,
        model.beside(decoding),
        system,
        chosen=looks,
        is_chosen=is_chosen,
        amateur=model.amateur,
        given=Given.of(decoding, looks, is_chosen, system),
    )
    _ = session.asked  # refuses what the search has no meaning for
    kept = None if session_file is None else KeptChat(session, session_file)
    if kept is not None and kept.is_there and load is not None:
        raise BadRequest(
            f"--load {load} and --session {kept.path}, which is there, are two conversations; give one",
            code="two_conversations",
        )
    begun = begin(session, load, kept)
    say(begun.at_once, quiet)
    for note in session.decoding.notes():
        say(f"note: {note}", quiet)
    llm = model.load(quiet=quiet, check=None if kept is None else kept.check)
    try:
        if not can_chat(llm):
            raise TemplateError(
                f"{model.name} has no chat template, so it cannot chat; "
                f"`unspool run --raw --model {model.name}` continues text with it",
                code="no_chat_template",
            )
        if sys.stdin is None:
            raise BadRequest("there is no standard input to read messages from", code="no_prompt")
        is_terminal = sys.stdin.isatty()
        if is_terminal:
            say(f"{model.name}: /help lists the commands, Ctrl-D leaves", quiet)
        read_line = terminal_lines() if is_terminal else piped_lines()
        if kept is None:
            talk(session, llm, read_line, quiet=quiet, forgiving=is_terminal)
            return
        restored = kept.restore(llm)  # refuses another model's
        say(begun.with_model, quiet)
        say(restored, quiet)
        try:
            talk(session, llm, read_line, quiet=quiet, forgiving=is_terminal, keep=lambda: kept.keep(llm))
        finally:
            say(kept.end(llm), quiet)
    finally:
        llm.close()


def talk(
    session: ChatSession,
    llm: LLM,
    read_line: Callable[[str], str | None],
    *,
    quiet: bool,
    forgiving: bool,
    keep: Callable[[], None] = lambda: None,
) -> None:
    """Read, run, answer, until there are no more lines. `forgiving`: an error is shown and talk goes on.

    `keep` is called before each line is read, when everything that came of the one before has been done.
    """
    from unspool.cli.chat_commands import handle

    while True:
        was_answering = False
        try:
            keep()
            message = read_message(read_line)
            if message is None:
                return
            if not message.strip():
                continue
            outcome = handle(session, message)
            say(outcome.text, quiet=False)
            if outcome.then == "leave":
                return
            if outcome.then == "answer":
                was_answering = True
                answer(session, llm, quiet=quiet)
        except KeyboardInterrupt:
            if not forgiving:
                raise
            say(_after_interrupt(session, was_answering), quiet=False)
        except UnspoolError as error:
            if not forgiving:
                raise
            say(f"error: {as_typed(error)}{_way_out(error, session)}", quiet=False)


def answer(session: ChatSession, llm: LLM, *, quiet: bool) -> None:
    """Print the answer as it becomes final, and its figures."""
    from unspool.cli.figures import figures_line

    with closing(session.answer(llm)) as events:
        for event in events:
            write(event.text)
            if event.finish_reason is not None:
                print(flush=True)
                say(figures_line(event, session.decoding.shown_profile), quiet)


def read_message(read_line: Callable[[str], str | None]) -> str | None:
    """One message, or None at the end of input.

    It has several lines if each but the last ends in a backslash, or if it stands between two FENCEs.
    """
    line = read_line("> ")
    if line is None:
        return None
    if line.lstrip().startswith(FENCE):
        return _read_fenced(line.lstrip().removeprefix(FENCE), read_line)
    lines = []
    while line.endswith("\\"):
        lines.append(line[:-1])
        following = read_line(". ")
        if following is None:
            return "\n".join(lines)
        line = following
    return "\n".join([*lines, line])


def _read_fenced(line: str, read_line: Callable[[str], str | None]) -> str:
    lines = []
    while not line.rstrip().endswith(FENCE):
        lines.append(line)
        following = read_line(". ")
        if following is None:
            raise BadRequest(f"the text that {FENCE} opened has no end; close it with {FENCE}")
        line = following
    lines.append(line.rstrip().removesuffix(FENCE))
    if lines and not lines[0]:
        lines = lines[1:]
    if lines and not lines[-1]:
        lines = lines[:-1]
    return "\n".join(lines)


def piped_lines() -> Callable[[str], str | None]:
    def read_line(_prompt: str) -> str | None:
        line = sys.stdin.buffer.readline()
        return decoded(line).rstrip("\r\n") if line else None

    return read_line


def say(text: str, quiet: bool) -> None:
    """News that is not the model's goes to standard error, so that standard output has answers alone."""
    if text and not quiet:
        print(text, file=sys.stderr, flush=True)


def _after_interrupt(session: ChatSession, was_answering: bool) -> str:
    if not was_answering:
        return "\n(Ctrl-D or /exit leaves)"
    if session.turns[-1].assistant is None:
        return "(stopped before the answer began; /retry asks again, /undo takes the message back)"
    return "(stopped; what was written is kept, /undo takes it back)"


def _way_out(error: UnspoolError, session: ChatSession) -> str:
    if isinstance(error, ContextOverflow) and len(session.turns) > 1:
        return "; /forget drops the oldest turn, then /retry asks again"
    return ""
