from __future__ import annotations

import sys
import types

import pytest

from unspool.cli import line_editor
from unspool.errors import BadRequest


def test_a_terminal_reads_until_ctrl_d(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    def at_end(_prompt: str) -> str:
        raise EOFError

    read_line = line_editor.terminal_lines()
    monkeypatch.setattr("builtins.input", lambda prompt: prompt + "typed")
    assert read_line("> ") == "> typed"
    monkeypatch.setattr("builtins.input", at_end)
    assert read_line("> ") is None
    assert capsys.readouterr().out == "\n"


def test_bytes_that_are_no_text_are_refused_at_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    read_line = line_editor.terminal_lines()
    monkeypatch.setattr("builtins.input", lambda prompt: "\udcff")
    with pytest.raises(BadRequest, match="not valid UTF-8"):
        read_line("> ")

    def undecodable(_prompt: str) -> str:
        return b"\xff".decode()

    monkeypatch.setattr("builtins.input", undecodable)
    with pytest.raises(BadRequest, match="not valid UTF-8"):
        read_line("> ")


@pytest.mark.parametrize(
    ("line", "word", "found"),
    [
        ("/s", "/s", ["/set ", "/system ", "/save ", "/stats "]),
        ("/set top_p", "top_p", ["top_p "]),
        ("/set temperature 0", "0", []),
        ("/save fi", "fi", []),
        ("hello /s", "/s", []),
        ("", "", []),
    ],
)
def test_commands_and_parameters_are_completed(line: str, word: str, found: list[str]) -> None:
    assert line_editor.completions(line, word) == found


class FakeReadline(types.ModuleType):
    def __init__(self, doc: str) -> None:
        super().__init__("readline", doc)
        self.bound = ""

    def set_completer_delims(self, delims: str) -> None:
        self.delims = delims

    def set_completer(self, completer: object) -> None:
        self.completer = completer

    def parse_and_bind(self, line: str) -> None:
        self.bound = line

    def get_line_buffer(self) -> str:
        return "/un and more"

    def get_endidx(self) -> int:
        return 3


@pytest.mark.parametrize(
    ("doc", "binding"), [("GNU readline", "tab: complete"), ("libedit", "bind ^I rl_complete")]
)
def test_tab_completes_with_either_library(doc: str, binding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeReadline(doc)
    monkeypatch.setitem(sys.modules, "readline", fake)
    line_editor.terminal_lines()
    assert fake.bound == binding
    assert [fake.completer("/un", state) for state in range(2)] == ["/undo ", None]


def test_without_readline_lines_are_read_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "readline", None)
    monkeypatch.setattr("builtins.input", lambda prompt: "typed")
    assert line_editor.terminal_lines()("> ") == "typed"
