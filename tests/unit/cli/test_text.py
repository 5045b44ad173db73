from __future__ import annotations

import io
import sys

import pytest

from unspool.cli import text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


WRITTEN = "a\x1b[2J\x07\x7f\x9b\tb\r\nÄ🙂"


def test_a_pipe_gets_every_character_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stdout", pipe)
    text.write(WRITTEN)
    assert pipe.getvalue() == WRITTEN


def test_a_terminal_is_shown_control_characters_and_not_driven_by_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    text.write(WRITTEN)
    assert terminal.getvalue() == "a␛[2J␇␡\\x9b\tb\r\nÄ🙂"
