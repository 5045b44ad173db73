"""`unspool quantize`, and --weights."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tiny_llm import write_tiny_llm

from unspool.cli.app import run_command


@pytest.fixture
def model(tmp_path) -> Path:
    return write_tiny_llm(tmp_path / "tiny.gguf")


def test_it_writes_a_file_that_runs_and_says_what_is_in_it(model, tmp_path, capsys):
    out = tmp_path / "small.gguf"
    assert run_command(["quantize", str(model), str(out), "--type", "q8_0"]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"{out}: ")
    assert "tensors: 15 Q8_0, 5 F32" in told.err
    assert run_command(["run", "-m", str(out), "hello", "--max-tokens", "3", "-q"]) == 0


def test_quiet_says_nothing_and_a_second_quantization_is_noted(model, tmp_path, capsys):
    once, twice = tmp_path / "once.gguf", tmp_path / "twice.gguf"
    assert run_command(["quantize", str(model), str(once), "-t", "q8_0", "-q"]) == 0
    assert capsys.readouterr() == ("", "")
    assert run_command(["quantize", str(once), str(twice), "-t", "q4_0"]) == 0
    assert "note: the model was quantized before" in capsys.readouterr().err


def test_a_file_that_grows_is_noted(model, tmp_path, capsys):
    small, large = tmp_path / "small.gguf", tmp_path / "large.gguf"
    assert run_command(["quantize", str(model), str(small), "-t", "q4_0"]) == 0
    assert "larger than it was" not in capsys.readouterr().err
    assert run_command(["quantize", str(small), str(large), "-t", "q8_0"]) == 0
    assert "note: the file is larger than it was; q8_0 has more bits" in capsys.readouterr().err


def test_mistakes_are_one_line_and_exit_code_2(model, tmp_path, capsys):
    out = tmp_path / "small.gguf"
    for arguments, said in (
        (["--type", "q9"], "type must be one of q4_0"),
        (["--threads", "0"], "--threads must be a whole number"),
        (["--threads", "99999"], "--threads must be a whole number in [1, 256], got 99999; leave it out"),
    ):
        assert run_command(["quantize", str(model), str(out), *arguments]) == 2
        assert said in capsys.readouterr().err
    out.write_text("mine")
    assert run_command(["quantize", str(model), str(out)]) == 2
    assert "or --force" in capsys.readouterr().err
    assert run_command(["quantize", str(model), str(out), "--force"]) == 0


def test_weights_are_quantized_as_they_are_loaded(model, capsys):
    def tokens(*more: str) -> list[int]:
        asked = ["run", "-m", str(model), "hello", "--json", "-q", "--max-tokens", "8", "--seed", "1"]
        assert run_command([*asked, *more]) == 0
        return json.loads(capsys.readouterr().out)["token_ids"]

    assert tokens("--weights", "q8") == tokens("--weights", "q8") != []
    assert run_command(["run", "-m", str(model), "hello", "--weights", "q3"]) == 2
    assert "weights must be one of q8, q4, got 'q3'" in capsys.readouterr().err


def test_a_device_is_not_replaced_by_a_file(unspool, model, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    ran = unspool("quantize", str(model), str(pipe), "--force")
    assert (ran.exit_code, ran.out) == (2, "")
    assert ran.err == f"error: {pipe}: is no regular file; give another name\n"
    assert pipe.is_fifo()
