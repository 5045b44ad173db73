from __future__ import annotations

import io
import json
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


@pytest.mark.parametrize(
    ("encoding", "shown"), [("utf-8", "é世"), ("ascii", "\\u00e9\\u4e16"), ("cp1252", None)]
)
def test_json_is_json_whatever_standard_output_can_write(
    monkeypatch, encoding: str, shown: str | None
) -> None:
    raw = io.BytesIO()
    # As `run_command` sets it: what cannot be encoded is escaped as Python does, which JSON does not read.
    stream = io.TextIOWrapper(raw, encoding=encoding, errors="backslashreplace")
    monkeypatch.setattr("sys.stdout", stream)
    text.write_json({"text": "é世"})
    stream.flush()
    written = raw.getvalue().decode(encoding)
    assert json.loads(written) == {"text": "é世"}
    assert shown is None or shown in written
