"""--amateur and --contrast in every command that decodes, with two tiny models."""

from __future__ import annotations

import dataclasses
import json

import pytest
from tiny_llm import write_tiny_llm

from unspool import LLM, DecodingParams

SAME = ("--seed", "3", "--max-tokens", "9", "--temperature", "1.5", "--top-p", "1")
MACHINE = ("--threads", "1", "--kv", "4096")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def model(folder):
    return str(write_tiny_llm(folder / "large.gguf", context_length=1024))


@pytest.fixture(scope="module")
def amateur(folder):
    return str(write_tiny_llm(folder / "small.gguf", context_length=1024, seed=1, n_layers=1))


@pytest.fixture
def told(unspool, model, monkeypatch, tmp_path):
    """What a command prints on standard output."""
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))

    def call(*arguments, stdin=None):
        ran = unspool(*arguments, "--model", model, *MACHINE, stdin=stdin)
        assert ran.exit_code == 0, ran.err
        return ran.out

    return call


def test_run_best_and_chat_write_the_same_contrasted_answer(told, model, amateur):
    for contrast in (("--contrast", "beta=2"), ()):
        beside = ("--amateur", amateur, *contrast, *SAME)
        written = told("run", "Hi", *beside)
        assert written != told("run", "Hi", *SAME)
        assert told("chat", *beside, stdin=b"Hi\n") == written
        assert told("best", "Hi", "-n", "1", "--verifier", "sum-logprob", *beside) == written
    params = DecodingParams(seed=3, max_tokens=9, temperature=1.5, contrast_beta=0.5)
    with LLM(model, amateur=amateur, threads=1) as llm:
        assert llm.chat([{"role": "user", "content": "Hi"}], params).text + "\n" == written


def test_an_evaluation_contrasts_greedy_answers_and_samples(told, unspool, model, amateur, folder, tmp_path):
    out = tmp_path / "answers.jsonl"
    how = ("eval", "arithmetic", "--problems", "2", "-n", "1", "--max-tokens", "9", "--quiet", "--json")
    found = json.loads(told(*how, "--amateur", amateur, "--out", str(out)))
    settings = found["settings"]
    assert (settings["amateur"], settings["greedy"]["contrast_beta"]) == ("small", 0.5)
    assert settings["sample"]["contrast_beta"] == 0.5
    plain = json.loads(told(*how))["settings"]
    assert not {"amateur", "amateur_sha256"} & plain.keys()

    def greedy(path):
        lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
        return [line["text"] for line in lines if line["series"] == "greedy"]

    (other,) = (tmp_path / "cache" / "evals").iterdir()
    assert greedy(out) != greedy(other)
    another = str(write_tiny_llm(folder / "other.gguf", context_length=1024, seed=2))
    ran = unspool(*how, "--model", model, *MACHINE, "--amateur", another, "--out", str(out))
    assert ran.exit_code == 2
    assert "has answers with amateur = 'small', and 'other' is asked for" in ran.err


def test_a_guided_evaluation_guides_its_greedy_answers(told):
    how = ("eval", "arithmetic", "--problems", "1", "-n", "0", "--max-tokens", "4", "--quiet", "--json")
    settings = json.loads(told(*how, "--guidance-scale", "2", "--negative-prompt", "no"))["settings"]
    assert settings["greedy"]["guidance_scale"] == 2
    assert settings["greedy"]["negative_prompt"] == "no"


@pytest.mark.parametrize(
    "command",
    [
        ("run", "Hi"),
        ("explain", "Hi"),
        ("best", "Hi", "--verifier", "sum-logprob"),
        ("chat",),
        ("eval", "arithmetic"),
        ("eval", "humaneval"),
    ],
)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--contrast", "beta=1"],
            "--contrast beta=1 is a contrast, which needs a second model; add --amateur",
        ),
        (["--set", "contrast_beta=1"], "contrast_beta=1 is a contrast, which needs a second model"),
        (["--amateur", "small", "--contrast", "beta=0"], "no part in it while beta is 0"),
        (
            ["--amateur", "small", "--contrast", "gamma=1"],
            "--contrast takes alpha=X and beta=X, got 'gamma=1'",
        ),
        (
            ["--amateur", "small", "--contrast", "beta=nan"],
            "contrast_beta must be a number in [0, 100], got nan",
        ),
    ],
)
def test_every_command_refuses_alike_before_anything_is_loaded(unspool, command, options, words):
    ran = unspool(*command, "--model", "/nowhere/a.gguf", *options)
    assert (ran.exit_code, ran.out) == (2, "")
    assert words in ran.err


def test_a_chat_without_an_amateur_refuses_a_contrast_and_says_how_to_have_one(unspool, fake_llm, tmp_path):
    profile = tmp_path / "away.toml"
    profile.write_text('description = "x"\ncontrast_beta = 0.25\n')
    for line in ("/set contrast_beta 1", f"/profile {profile}"):
        ran = unspool("chat", stdin=f"{line}\n".encode())
        assert ran.exit_code == 2
        assert "begin it with --amateur MODEL, or /set contrast_beta 0" in ran.err
    ran = unspool("chat", "--amateur", "small", stdin=b"/set contrast_beta 1\nHi\n/set contrast_beta 0\nHi\n")
    assert ran.exit_code == 0, ran.err
    assert [params.contrast_beta for _, params in fake_llm.chats] == [1, 0]


def test_a_conversation_that_was_contrasted_goes_on_as_it_was(unspool, fake_llm, tmp_path):
    saved = str(tmp_path / "chat.json")
    lines = f"Hi\n/save {saved}\n".encode()
    assert unspool("chat", "--amateur", "small", "--contrast", "beta=2", stdin=lines).exit_code == 0
    ran = unspool("chat", "--load", saved, "--model", "other", stdin=b"More\n")
    assert ran.exit_code == 2
    assert ran.err.splitlines()[-1] == (
        f"error: {saved} was contrasted (contrast_beta=2), which needs the second model again: give "
        "--model smollm2-135m --amateur small, or --contrast-beta 0 to go on without"
    )
    ran = unspool("chat", "--load", saved, "--amateur", "another", stdin=b"More\n")
    assert "it was contrasted with small; another goes on" in ran.err
    for options, beta in (([], 2), (["--contrast", "beta=3"], 3)):
        ran = unspool("chat", "--load", saved, "--amateur", "small", *options, stdin=b"More\n")
        assert ran.exit_code == 0, ran.err
        assert fake_llm.chats[-1][1].contrast_beta == beta
    ran = unspool("chat", "--load", saved, "--contrast-beta", "0", stdin=b"More\n")
    assert fake_llm.chats[-1][1].contrast_beta == 0
    ran = unspool("chat", "--load", saved, stdin=f"/load {saved}\nMore\n".encode())
    assert ran.exit_code == 2
    ran = unspool("chat", stdin=f"/load {saved}\nMore\n".encode())
    assert ran.exit_code == 2
    assert "it was contrasted with small; no second model is here" in ran.err
    assert "begin it with --amateur small, or /set contrast_beta 0" in ran.err


def test_a_session_that_was_contrasted_names_what_to_give_again(unspool, fake_llm, tmp_path):
    path = str(tmp_path / "a.session")
    how = ("--model", "big", "--amateur", "small")
    assert unspool("chat", "--session", path, *how, stdin=b"Hi\n").exit_code == 0
    ran = unspool("chat", "--session", path, stdin=b"More\n")
    assert ran.exit_code == 2
    assert "go" not in ran.err.split("error: ")[0], "what is refused does not go on before"
    assert "give --model big --amateur small, or --contrast-beta 0 to go on without" in ran.err
    fake_llm.identity = dataclasses.replace(fake_llm.identity, model="other", model_sha256="z")
    ran = unspool("chat", "--session", path, "--amateur", "small", stdin=b"More\n")
    assert ran.err.splitlines()[-1].endswith("(--model big --amateur small)")
    ran = unspool("chat", "--session", path, *how, "--contrast-beta", "0", stdin=b"More\n")
    assert ran.exit_code == 2, "an amateur has no part in it then"


def test_a_contrasted_chat_of_the_first_version_says_what_is_missing(unspool, fake_llm, tmp_path):
    path = tmp_path / "chat.json"
    content = {"format": "unspool-chat", "version": 1, "model": "big", "system": None, "messages": []}
    path.write_text(json.dumps(content | {"params": {"contrast_beta": 2}}))
    ran = unspool("chat", "--load", str(path), stdin=b"More\n")
    assert ran.exit_code == 2
    assert "give --model big --amateur MODEL, or --contrast-beta 0" in ran.err
