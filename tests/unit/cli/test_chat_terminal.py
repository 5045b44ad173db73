"""The chat on a real terminal: a pseudo-terminal with keys pressed and a screen read."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import unspool

pytest.importorskip("termios", reason="no pseudo-terminals here")

# Takes the pseudo-terminal as its own, so that Ctrl-C becomes a signal; then chats with a model that
# never stops talking unless it is told to be brief.
PROGRAM = """
import fcntl, sys, termios, time
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from unspool.cli import load, main
from unspool.types import Event, Usage

class Stream:
    def __init__(self, events):
        self.events = events
    def __iter__(self):
        return self.events
    def cancel(self):
        self.events = iter(())
    def close(self):
        pass

class Talker:
    chat_template, has_chat_template = "{{ messages }}", True
    def stream_chat(self, messages, params):
        return Stream(self.words(messages))
    def words(self, messages):
        n = 0
        while n < 3 or messages[-1]["content"] != "brief":
            yield Event(request_id=0, text=f"word{n} ", token_ids=(n,))
            n += 1
            time.sleep(0.005)
        usage = Usage(prompt_tokens=len(messages), cached_tokens=0, completion_tokens=n, queue_ms=0.1,
                      ttft_ms=1.0, prefill_s=0.001, decode_s=0.01, decoded_tokens=n - 1)
        yield Event(request_id=0, text="", token_ids=(), finish_reason="stop", usage=usage)
    def close(self):
        print("closed")

load.load_llm = lambda *args, **kwargs: Talker()
sys.exit(main(["chat"]))
"""


class Screen:
    def __init__(self) -> None:
        self.keyboard, terminal = os.openpty()
        source = Path(unspool.__file__).parents[1]
        self.child = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
            env=os.environ | {"PYTHONPATH": str(source), "TERM": "dumb"},
        )
        os.close(terminal)
        self.text = ""

    def press(self, keys: str) -> None:
        self.text = ""
        os.write(self.keyboard, keys.encode())

    def shows(self, pattern: str, seconds: float) -> bool:
        """Read until the pattern is on the screen or the time is over."""
        deadline = time.monotonic() + seconds
        while not re.search(pattern, self.text):
            ready, _, _ = select.select([self.keyboard], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return False
            try:
                self.text += os.read(self.keyboard, 65536).decode()
            except OSError:  # the other side has closed
                return False
        return True

    def wait_for(self, pattern: str) -> str:
        """Read until the pattern is on the screen; returns what was read since the last key."""
        assert self.shows(pattern, seconds=20), f"no {pattern!r} in {self.text!r}"
        return self.text

    def exit_code(self) -> int:
        self.wait_for("closed")
        return self.child.wait(20)


@pytest.fixture
def screen() -> Iterator[Screen]:
    screen = Screen()
    try:
        screen.wait_for("/help lists the commands.*> ".replace(".*", r"[\s\S]*"))
        yield screen
    finally:
        screen.child.kill()
        screen.child.wait()
        os.close(screen.keyboard)


def test_an_answer_is_shown_with_its_figures_and_ctrl_d_leaves(screen) -> None:
    screen.press("brief\n")
    shown = screen.wait_for(r"end: end of text\s+> ")
    assert "word0 word1 word2" in shown
    screen.press("\x04")
    assert screen.exit_code() == 0


def test_ctrl_c_stops_the_answer_and_not_the_program(screen) -> None:
    screen.press("talk\n")
    screen.wait_for("word5 ")
    screen.press("\x03")
    screen.wait_for(r"stopped; what was written is kept[\s\S]*> ")
    screen.press("brief\n")
    assert "prompt: 3 tokens" in screen.wait_for(r"end: end of text\s+> ")
    screen.press("/exit\n")
    assert screen.exit_code() == 0


def test_ctrl_c_at_the_prompt_clears_the_line(screen) -> None:
    screen.press("half a li")
    screen.wait_for("half a li")
    screen.press("\x03")
    if not screen.shows(r"Ctrl-D or /exit leaves[\s\S]*> ", seconds=2):
        # A signal that comes after the echo and before readline waits again is seen at the next key.
        screen.press("\x03")
        screen.wait_for(r"Ctrl-D or /exit leaves[\s\S]*> ")
    screen.press("brief\n")
    assert "prompt: 1 token" in screen.wait_for("end: end of text")


def test_a_longer_message_is_typed_over_several_lines(screen) -> None:
    screen.press('"""\n')
    screen.wait_for(r"\. ")
    screen.press("brief\n")
    screen.wait_for(r"\. ")
    screen.press('"""\n')
    assert "word2" in screen.wait_for("end: end of text")


def test_earlier_lines_come_back_with_the_arrow_key(screen) -> None:
    pytest.importorskip("readline")
    screen.press("brief\n")
    screen.wait_for(r"end: end of text\s+> ")
    screen.press("\x1b[A\n")
    assert "prompt: 3 tokens" in screen.wait_for("end: end of text")


def test_the_tab_key_completes_a_command(screen) -> None:
    pytest.importorskip("readline")
    screen.press("/sta\t\n")
    screen.wait_for("no complete answer yet")
