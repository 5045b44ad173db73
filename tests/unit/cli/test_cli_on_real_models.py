"""The whole program as a user starts it, on models of the catalogue and on files that are none."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    import unspool

    monkeypatch.setenv("PYTHONPATH", str(Path(unspool.__file__).parents[1]))

    def call(*arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "unspool", *map(str, arguments)]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, cwd=tmp_path)

    return call


def assert_refused(ran: subprocess.CompletedProcess[str], exit_code: int, *said: str) -> None:
    assert ran.returncode == exit_code, ran.stderr
    assert ran.stdout == ""
    assert ran.stderr.startswith("error: ")
    assert ran.stderr.count("\n") == 1, ran.stderr
    for words in said:
        assert words in ran.stderr


@pytest.mark.model
def test_run_writes_what_the_front_door_writes(cli, model_path) -> None:
    from unspool import LLM, DecodingParams

    path = model_path("smollm2-135m")
    ran = cli("run", "--raw", "--temperature", "0", "--max-tokens", "12", "-m", path, stdin="The sun is\n")
    with LLM(path) as llm:
        expected = llm.generate("The sun is", DecodingParams(temperature=0, max_tokens=12)).text
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == expected + "\n"
    assert len(expected.split()) > 3
    assert "first token: " in ran.stderr


@pytest.mark.model
def test_run_answers_a_question_through_the_template(cli, model_path) -> None:
    ran = cli(
        "run", "What colour is the sky?", "--json", "--max-tokens", "8", "-m", model_path("smollm2-135m")
    )
    answer = json.loads(ran.stdout)
    assert answer["chat_template"] is True
    assert answer["usage"]["prompt_tokens"] > 20, "the template adds a system message"
    assert 0 < len(answer["token_ids"]) <= 8
    again = cli(
        *("run", "What colour is the sky?", "--json", "--max-tokens", "8"),
        *("--seed", str(answer["seed"]), "-m", model_path("smollm2-135m"), "--threads", "1"),
    )
    assert json.loads(again.stdout)["token_ids"] == answer["token_ids"], "the seed reported repeats the text"


@pytest.mark.model
def test_a_base_model_continues_the_prompt_and_says_so(cli, model_path) -> None:
    ran = cli(
        "run", "Once upon a", "--temperature", "0", "--max-tokens", "4", "-m", model_path("gemma3-270m")
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.startswith("note: this model has no chat template")
    assert ran.stdout.strip()
    assert_refused(cli("chat", "-m", model_path("gemma3-270m")), 2, "no chat template", "unspool run --raw")


@pytest.mark.model
def test_chat_remembers_what_was_said(cli, model_path, tmp_path: Path) -> None:
    script = "My name is Ada.\n/set max_tokens 5\nWhat is my name?\n/save chat.json\n"
    ran = cli(
        "chat", "--temperature", "0", "--max-tokens", "5", "-m", model_path("smollm2-135m"), stdin=script
    )
    assert ran.returncode == 0, ran.stderr
    saved = json.loads((tmp_path / "chat.json").read_text(encoding="utf-8"))
    assert [message["role"] for message in saved["messages"]] == ["user", "assistant"] * 2
    assert ran.stdout.splitlines() == [m["content"] for m in saved["messages"] if m["role"] == "assistant"]


@pytest.mark.model
@pytest.mark.parametrize("template", ["--raw", "--quiet"])
def test_a_prompt_longer_than_the_context_is_refused(cli, model_path, template: str) -> None:
    ran = cli("run", "word " * 40, template, "--context", "32", "-m", model_path("smollm2-135m"))
    assert_refused(ran, 2, "context", "shorten")


@pytest.mark.model
def test_a_conversation_that_outgrows_the_context_names_the_way_out(cli, model_path) -> None:
    script = "Hi\n" + "word " * 80 + "\n"
    ran = cli(
        "chat", "-q", "--max-tokens", "4", "--context", "64", "-m", model_path("smollm2-135m"), stdin=script
    )
    assert ran.returncode == 2
    assert "context" in ran.stderr.splitlines()[-1]


@pytest.mark.model
def test_show_reads_a_catalogue_file(cli, model_path) -> None:
    facts = json.loads(cli("models", "show", model_path("smollm2-135m"), "--json").stdout)
    assert (facts["architecture"], facts["context_length"], facts["chat_template"]) == ("llama", 8192, True)
    assert facts["parameters"] == 134_515_008
    assert facts["sha256"].startswith("b179c9523d0e6a0f")


@pytest.mark.parametrize("command", [("run", "Hi"), ("chat",), ("models", "show")])
@pytest.mark.parametrize(
    ("name", "content", "exit_code", "said"),
    [
        ("gone.gguf", None, 2, "no such file"),
        ("cut.gguf", b"GGUF\x03\x00\x00\x00", 1, "cut.gguf"),
        ("model.bin", b"PK\x03\x04", 1, "pickle"),
        ("page.gguf", b"<html>", 1, "web page"),
        ("empty.safetensors", b"", 1, "empty.safetensors"),
    ],
)
def test_a_file_that_is_no_model_is_refused(
    cli, tmp_path: Path, command: tuple[str, ...], name: str, content: bytes | None, exit_code: int, said: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    target = (name,) if command[0] == "models" else ("--model", name)
    assert_refused(cli(*command, *target), exit_code, said)


def test_a_gguf_of_another_architecture_is_refused_by_name(cli, tmp_path: Path) -> None:
    import gguf

    writer = gguf.GGUFWriter(tmp_path / "other.gguf", "mamba")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert_refused(cli("run", "Hi", "--model", "other.gguf"), 1, "mamba", "llama")


def test_a_damaged_file_in_the_cache_is_refused_with_both_hashes(
    cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unspool.models.catalogue import CATALOGUE

    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))
    model = CATALOGUE["smollm2-135m"]
    path = tmp_path / "cache" / "models" / model.name / f"{model.name}.gguf"
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        file.truncate(model.n_bytes)
    ran = cli("run", "Hi")
    assert_refused(ran, 1, model.sha256, "unspool models pull smollm2-135m")


@pytest.mark.model
def test_explain_shows_how_an_answer_of_a_real_model_came_about(cli, model_path) -> None:
    asked = ("What colour is the sky?", "--seed", "2", "--max-tokens", "6", "-m", model_path("smollm2-135m"))
    ran = cli("explain", *asked, "--expand", "2")
    assert ran.returncode == 0, ran.stderr
    numbers = [line.split()[0] for line in ran.stdout.splitlines() if line.strip()]
    assert numbers[:4] == ["#", "1", "2", "stage"]
    assert "temperature" in numbers
    trace = json.loads(cli("explain", *asked, "--json").stdout)["trace"]
    assert [each["token_id"] for each in trace] == json.loads(cli("run", *asked, "--json").stdout)[
        "token_ids"
    ]
    assert all(each["matches"] for each in trace)
    assert {each["n_candidates"] for each in trace} == {49152}
