"""The table of a trace: what a person reads, in a pipe and on a terminal."""

from __future__ import annotations

import dataclasses
import io

import pytest
from toy_traces import toy_trace

from unspool.cli.explain_table import TraceTable, percent, quoted


def printed(capsys, *traces, expanded=False):
    table = TraceTable()
    for number, trace in enumerate(traces, start=1):
        table.add(number, trace, expanded=expanded)
    return capsys.readouterr().out


def test_a_token_is_one_line_under_one_heading(capsys):
    lines = printed(capsys, toy_trace(), toy_trace(temperature=0)).splitlines()
    assert len(lines) == 3
    assert lines[0].split()[:2] == ["#", "token"]
    assert '" the"' in lines[1]
    assert "5 → 2" in lines[1]
    assert "top_p 13.8 %" in lines[1]
    assert lines[2].split()[0] == "2"
    assert lines[2].endswith("nothing")
    assert "40 %" in lines[2]


def test_expanded_it_has_a_line_for_each_stage_and_what_each_did(capsys):
    out = printed(capsys, toy_trace(), expanded=True)
    lines = [line.split() for line in out.splitlines()]
    assert [line[0] for line in lines if line][3:] == [
        *("temperature", "moved", "top_k", "cut", "top_p", "cut", "left")
    ]
    assert 'cut     "世" 13.8 %' in out
    assert "40 % → 54.2 % (logit -0.916)" in out
    assert '"$x$" 1.22 %' in out
    assert 'left    " the" 64 %, "\\n" 36 %' in out
    assert "0.5" in out


def test_what_is_left_out_is_counted(capsys):
    probs, texts = [0.1] * 10, [f"t{i}" for i in range(10)]
    out = printed(capsys, toy_trace(probs, texts, top_k=1), expanded=True)
    assert "and 4 more" in out
    out = printed(capsys, toy_trace(probs, texts, top_k=0), expanded=True)
    assert "and 5 more" in out, "without a stage all ten are left"


def test_a_pipe_gets_no_colours_and_whole_lines(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    out = printed(capsys, toy_trace(), expanded=True)
    assert "\x1b" not in out
    assert len(out.splitlines()) == len(printed(capsys, toy_trace(), expanded=True).splitlines())


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("no_color", "has_colour"), [(None, True), ("1", False)])
def test_a_terminal_gets_colours_unless_no_color_is_set(monkeypatch, no_color, has_colour):
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    if no_color is not None:
        monkeypatch.setenv("NO_COLOR", no_color)
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    TraceTable().add(1, toy_trace(), expanded=True)
    assert ("\x1b[31m" in terminal.getvalue()) == has_colour


def test_a_trace_that_differs_from_the_engine_says_so(capsys):
    assert "note" not in printed(capsys, toy_trace(), expanded=True)
    other = dataclasses.replace(toy_trace(), matches=False)
    assert "survived here or in the engine alone" in printed(capsys, other, expanded=True)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" the", '" the"'),
        ("\n\t", '"\\n\\t"'),
        ("\x1b[2J", '"\\x1b[2J"'),
        ("世", '"世"'),
        ("\u202e", '"\\u202e"'),
    ],
)
def test_a_token_never_drives_the_terminal(text, shown):
    assert quoted(text) == shown


def test_a_token_too_long_for_its_column_is_cut_and_the_columns_stay(capsys):
    first, second = (printed(capsys, toy_trace((1 - p, *[p / 4] * 4), texts=(text, *"abcd"), temperature=0))
                     for p, text in ((0.1, "x" * 50), (0.1, "世界")))  # fmt: skip
    assert "…" in first
    assert first.splitlines()[1].index("90 %") - second.splitlines()[1].index("90 %") == 2, (
        "the two wide characters take two columns each"
    )


def test_probabilities_have_three_digits():
    assert [percent(p) for p in (1, 0.12345, 0.00012345, 0)] == ["100 %", "12.3 %", "0.0123 %", "0 %"]
