"""One JSON value on standard output, however a command with --json ends."""

from __future__ import annotations

import io
import json

import pytest
import typer

from unspool import breakdown
from unspool.cli import border, json_out, load, plain
from unspool.cli.app import app
from unspool.errors import BadRequest, CapacityError, ModelFileError


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
    json_out.write_json({"text": "é世"})
    stream.flush()
    written = raw.getvalue().decode(encoding)
    assert json.loads(written) == {"text": "é世"}
    assert shown is None or shown in written


COMMANDS = {
    ("run",): ("Hi",),
    ("explain",): ("Hi",),
    ("best",): ("Hi", "--verifier", "mean-logprob"),
    ("bench",): (),
    ("kv",): (),
    ("eval", "humaneval"): ("--data", "problems.jsonl"),
    ("eval", "arithmetic"): (),
    ("models", "list"): (),
    ("models", "show"): ("smollm2-135m",),
    ("profiles", "list"): (),
    ("profiles", "show"): ("default",),
    ("profiles", "check"): ("default",),
    ("params",): (),
}
NO_MEMORY = "out of memory; close other programs, or take a smaller model or --context"
FULL = "No space left; check the disk and where output goes"
ENDINGS = {
    "Ctrl-C": (KeyboardInterrupt(), 130, None, None),
    "a refusal": (BadRequest("x is wrong", code="bad_x"), 2, "bad_x", "x is wrong"),
    "a failure": (ModelFileError("m", "header", "is torn"), 1, "model_file", "m: header: is torn"),
    "no memory": (MemoryError(), 1, "out_of_memory", NO_MEMORY),
    "a full disk": (OSError(28, "No space left"), 1, "output", FULL),
}


def walk(command, path=()):
    for name, each in getattr(command, "commands", {}).items():
        yield from walk(each, (*path, name))
    if any("--json" in option.opts for option in command.params):
        yield path


def test_every_command_with_json_is_here():
    assert set(walk(typer.main.get_command(app))) == COMMANDS.keys()


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_that_has_told_nothing_tells_how_it_ended(unspool, monkeypatch, command, ending):
    problem, exit_code, code, message = ENDINGS[ending]

    def fail(*_):
        raise problem

    monkeypatch.setattr(border, "_silence", lambda stream: None)  # the tests' own output goes on
    monkeypatch.setattr(plain, "_answer", fail)
    monkeypatch.setattr(typer.core.TyperCommand, "invoke", fail)
    silent = unspool(*command, *COMMANDS[command])
    ran = unspool(*command, *COMMANDS[command], "--json")
    assert (ran.exit_code, ran.err) == (silent.exit_code, silent.err)
    assert (ran.exit_code, silent.out) == (exit_code, "")
    name = "ended" if command == ("best",) else "finish_reason"
    told = json.loads(ran.out)
    if code is None:
        assert told == {name: "cancelled"}
        return
    assert told.keys() == {name, "error"}
    assert (told[name], told["error"]["code"]) == ("error", code)
    assert told["error"]["message"] == message
    assert ran.err == f"error: {told['error']['message']}\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("run", "Hi", "--json", "--bogus"), "no such option"),
        (("run", "--json", "a", "b"), "unexpected extra argument"),
        (("bench", "--json", "--rows"), "requires an argument"),
    ],
)
def test_a_line_that_cannot_be_read_is_told_too(unspool, line, said):
    ran = unspool(*line)
    told = json.loads(ran.out)
    assert (ran.exit_code, told["finish_reason"], told["error"]["code"]) == (2, "error", "usage")
    assert said in told["error"]["message"].lower()
    assert ran.err == f"error: {told['error']['message']}\n"


def test_what_stands_behind_two_dashes_asks_for_nothing(unspool, fake_llm):
    fake_llm.refuses = BadRequest("not that", code="bad_x")
    assert unspool("run", "--", "--json").out == ""


def interrupted(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (("run", "Hi"), {"finish_reason": "cancelled"}),
        (("run", "--json", "--", "Hi"), {"finish_reason": "cancelled"}),
        (("explain", "Hi"), {"finish_reason": "cancelled"}),
        (("best", "Hi", "--verifier", "mean-logprob"), {"ended": "cancelled"}),
        (("eval", "arithmetic"), {"finish_reason": "cancelled"}),
    ],
)
def test_ctrl_c_before_the_model_is_loaded(unspool, monkeypatch, line, told):
    monkeypatch.setattr(load, "load_llm", interrupted)
    ran = unspool(*line, *(() if "--json" in line else ("--json",)))
    assert (ran.exit_code, json.loads(ran.out)) == (130, told)


def test_ctrl_c_while_bench_measures(unspool, monkeypatch, tmp_path):
    monkeypatch.setattr(load, "found_model", lambda model, quiet: tmp_path)
    monkeypatch.setattr(breakdown, "measure", interrupted)
    ran = unspool("bench", "--json")
    assert (ran.exit_code, json.loads(ran.out)) == (130, {"finish_reason": "cancelled"})


def test_an_answer_that_fails_is_told_once(unspool, fake_llm):
    fake_llm.fails = CapacityError("there is no page left")
    ran = unspool("run", "Hi", "--json")
    assert (ran.exit_code, json.loads(ran.out)["error"]["code"]) == (1, "capacity")


def test_what_was_told_is_not_told_again(unspool, fake_llm):
    fake_llm.interrupted_at = 1
    ran = unspool("run", "Hi", "--json")
    told = json.loads(ran.out)
    assert (ran.exit_code, told["finish_reason"], told["text"]) == (130, "cancelled", "Once upon and ")


def test_a_lost_output_is_no_second_failure(monkeypatch):
    class Lost(io.StringIO):
        def flush(self):
            raise BrokenPipeError

    lost = Lost()
    monkeypatch.setattr("sys.stdout", lost)
    ending = json_out.Ending.of(["run", "--json"])
    assert ending is not None
    ending.interrupted()
    assert json.loads(lost.getvalue()) == {"finish_reason": "cancelled"}


def test_ctrl_c_before_anything_has_begun(unspool, monkeypatch):
    monkeypatch.setattr(plain, "read", interrupted)
    assert (unspool("run", "Hi").exit_code, unspool("run", "Hi").out) == (130, "")
    ran = unspool("run", "Hi", "--json")
    assert (ran.exit_code, json.loads(ran.out)) == (130, {"finish_reason": "cancelled"})
