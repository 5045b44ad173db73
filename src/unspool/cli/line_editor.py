"""Lines typed at a terminal: edited, recalled and completed by readline where Python has it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from typing import Any

from unspool.cli.text import checked
from unspool.errors import BadRequest


def terminal_lines() -> Callable[[str], str | None]:
    """A function that asks for a line with a prompt in front; None after Ctrl-D."""
    with suppress(ImportError):  # Windows has none: its console edits by itself
        _set_up(importlib.import_module("readline"))

    def read_line(prompt: str) -> str | None:
        try:
            return checked(input(prompt), "the message")
        except EOFError:
            print()
            return None
        except UnicodeDecodeError:
            raise BadRequest("the message is not valid UTF-8; type it again", code="bad_text") from None

    return read_line


def completions(line: str, word: str) -> list[str]:
    """What the last word of a line may become: a command, or a parameter after /set."""
    from unspool.cli.chat_commands import COMMANDS
    from unspool.params import DecodingParams

    before = line[: len(line) - len(word)].split()
    if not before:
        return [f"/{name} " for name in COMMANDS if word and f"/{name}".startswith(word)]
    if before == ["/set"]:
        return [f"{field.name} " for field in fields(DecodingParams) if field.name.startswith(word)]
    return []


def _set_up(readline: Any) -> None:
    def completer(word: str, state: int) -> str | None:
        found = completions(readline.get_line_buffer()[: readline.get_endidx()], word)
        return found[state] if state < len(found) else None

    readline.set_completer_delims(" ")
    readline.set_completer(completer)
    # macOS has libedit under the same name, with a language of its own.
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
