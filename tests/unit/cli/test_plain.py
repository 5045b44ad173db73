"""The two readers of `unspool run`: what the plain one understands, the other understands alike."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from unspool.cli import main, plain
from unspool.cli.app import app
from unspool.cli.param_words import DEFAULTS

RUN = typer.main.get_command(app).commands["run"]  # type: ignore[attr-defined]
OPTIONS = sorted(
    {name for option in RUN.params for name in (*option.opts, *option.secondary_opts)} - {"prompt"}
)
USAGE_ERROR: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")

WORDS = st.sampled_from(
    [
        *(*OPTIONS, "--help", "-h", "--", "-", "", "hello", "-5", "--model=x", "--temperature=0"),
        *("--raw=1", "-mx", "--nonesuch", "--temp", "-qm", "top_k=5", "--stop=a=b", "--no-ignore-eos=x"),
    ]
)


def by_typer(arguments: list[str]) -> dict[str, Any] | None:
    """What was typed, by parameter; None for a mistake."""
    try:
        context = RUN.make_context("run", list(arguments))
    except (USAGE_ERROR, typer.Exit):
        return None
    return {
        name: value
        for name, value in context.params.items()
        if context.get_parameter_source(name).name == "COMMANDLINE"
    }


@given(st.lists(WORDS, max_size=7))
def test_what_the_plain_reader_understands_the_other_understands_alike(arguments: list[str]) -> None:
    understood = plain.read(arguments)
    assert understood is None or understood == by_typer(arguments)


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_is_known_to_the_plain_reader(name: str) -> None:
    for value in ([], ["5"]):
        arguments = [name, *value]
        if (expected := by_typer(arguments)) is not None:
            assert plain.read(arguments) == expected


def test_every_decoding_parameter_is_known_to_the_plain_reader() -> None:
    values, repeatable, switches = plain._tables()
    names = {*values.values(), *repeatable.values(), *(parameter for parameter, _ in switches.values())}
    assert names >= set(DEFAULTS)


@pytest.mark.parametrize(
    "arguments",
    [
        *(["--help"], ["a", "b"], ["-n5", "a"], ["a", "--model"], ["a", "--seed", "-1"], ["a", "--", "b"]),
        *(["-q", "-q", "a"], ["--top-k", "5", "--top-k", "6"], ["--raw", "--nonesuch"], ["--temp", "1"]),
    ],
)
def test_what_is_not_plain_is_left_to_the_other_reader(arguments: list[str]) -> None:
    assert plain.read(arguments) is None


def test_a_plain_command_line_brings_no_machinery_of_options() -> None:
    program = (
        "import sys\n"
        "from unspool.cli import main\n"
        "code = main(['run', 'hello', '--model', 'nonesuch.gguf', '--temperature', '0'])\n"
        "print(code, *{'typer', 'rich', 'click', 'pydantic'} & {*sys.modules})\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2"]
    assert "nonesuch.gguf" in done.stderr


def test_both_readers_refuse_in_the_same_words(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ["run", "--temperature", "warm"]
    said = []
    for prompt in (["hello"], ["--", "hello"]):  # a double dash leaves it to the other
        assert main([*wrong, *prompt]) == 2
        said.append(capsys.readouterr().err)
    assert said[0] == said[1]
    assert said[0].startswith("error: temperature")
