"""Every decoding parameter can be given on the command line, and says what is wrong with it there."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from unspool.cli.decoding import REPORTS, Decoding
from unspool.cli.decoding_options import COMMON
from unspool.cli.param_words import DEFAULTS, FLAGS, meaning, meanings
from unspool.cli.typed import option
from unspool.errors import ParameterConflict
from unspool.params import DecodingParams

# Parameter to what is typed, what it becomes, and what else it cannot do without.
TYPED = {
    "temperature": ("0.5", 0.5),
    "dynatemp_min": ("0.5", 0.5, "--dynatemp-max", "1.5"),
    "dynatemp_max": ("1.5", 1.5, "--dynatemp-min", "0.5"),
    "dynatemp_exponent": ("2", 2.0),
    "edt_theta": ("0.5", 0.5),
    "edt_base": ("0.7", 0.7),
    "smoothing_factor": ("0.2", 0.2),
    "smoothing_curve": ("2", 2.0),
    "top_n_sigma": ("1", 1.0),
    "top_k": ("40", 40),
    "top_p": ("0.5", 0.5),
    "min_p": ("0.05", 0.05),
    "typical_p": ("0.9", 0.9),
    "top_h": ("0.6", 0.6),
    "epsilon_cutoff": ("0.001", 0.001),
    "eta_cutoff": ("0.002", 0.002),
    "top_a": ("0.2", 0.2),
    "tfs_z": ("0.9", 0.9),
    "xtc_probability": ("0.5", 0.5),
    "xtc_threshold": ("0.2", 0.2),
    "mirostat": ("2", 2),
    "mirostat_tau": ("3", 3.0),
    "mirostat_eta": ("0.2", 0.2),
    "adaptive_target": ("0.3", 0.3),
    "adaptive_decay": ("0.5", 0.5),
    "repetition_penalty": ("1.2", 1.2),
    "frequency_penalty": ("0.1", 0.1),
    "presence_penalty": ("-0.1", -0.1),
    "penalty_scope": ("output", "output"),
    "penalty_window": ("64", 64),
    "penalty_exclude_ids": ("1,2", (1, 2)),
    "penalty_exclude_template": (None, True),
    "dry_multiplier": ("0.8", 0.8),
    "dry_base": ("2", 2.0),
    "dry_allowed_length": ("3", 3),
    "dry_window": ("100", 100),
    "dry_breakers": (";", (";",)),
    "no_repeat_ngram_size": ("3", 3),
    "bad_words": ("darn", ("darn",)),
    "banned_token_ids": ("7", (7,)),
    "allowed_token_ids": ("1,2,3", (1, 2, 3)),
    "logit_bias": ("yes=2", (("yes", 2.0),)),
    "min_tokens": ("5", 5),
    "guidance_scale": ("1.5", 1.5),
    "negative_prompt": ("a bad answer", "a bad answer"),
    "contrast_beta": ("0.5", 0.5, "--amateur", "small"),
    "contrast_alpha": ("0.2", 0.2, "--amateur", "small"),
    "order": ("llama.cpp", "llama.cpp"),
    "logprobs": ("3", 3),
    "prompt_logprobs": ("0", 0),
    "trace": (None, True),
    "seed": ("7", 7),
    "max_tokens": ("none", None),
    "stop": ("END", ("END",)),
    "stop_regex": ("[0-9]+", ("[0-9]+",)),
    "stop_token_ids": ("3", (3,)),
    "ignore_eos": (None, True),
    "include_stop": (None, True),
    "deadline_s": ("1.5", 1.5),
    "loop_min_count": ("3", 3),
    "loop_max_length": ("9", 9),
}


def test_the_table_has_every_parameter() -> None:
    assert list(TYPED) == list(DEFAULTS)


@pytest.mark.parametrize("name", TYPED)
def test_every_parameter_has_an_option_that_reaches_the_model(unspool, fake_llm, name: str) -> None:
    text, value, *others = TYPED[name]
    ran = unspool("run", "Hi", "--json", option(name), *([] if text is None else [text]), *others)
    assert ran.exit_code == 0, ran.err
    assert getattr(fake_llm.chats[0][1], name) == value
    assert name in json.loads(ran.out)["params"]


@pytest.mark.parametrize("name", [name for name in TYPED if name not in FLAGS])
def test_every_parameter_can_be_set_by_name(unspool, fake_llm, name: str) -> None:
    text, value, *others = TYPED[name]
    ran = unspool("run", "Hi", "--json", "--set", f"{name}={text}", *others)
    assert ran.exit_code == 0, ran.err
    assert getattr(fake_llm.chats[0][1], name) == value


@pytest.mark.parametrize("name", FLAGS)
def test_a_switch_can_be_turned_off_again(unspool, fake_llm, tmp_path: Path, name: str) -> None:
    profile = tmp_path / "mine.toml"
    profile.write_text(f"{name} = true\n")
    off = f"--no-{option(name)[2:]}"
    assert unspool("run", "Hi", "--json", "--profile", str(profile), off).exit_code == 0
    assert getattr(fake_llm.chats[0][1], name) is False


def test_the_help_shows_the_common_ones_and_points_to_the_rest(unspool, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = unspool("run", "--help").out
    for name in DEFAULTS:
        assert (f"{option(name)} " in text) == (name in COMMON), name
    assert "unspool params" in text
    rows = {line.split()[0] for line in unspool("params").out.splitlines()}
    assert rows == {"OPTION", *map(option, DEFAULTS)}


def test_every_parameter_has_a_meaning_in_words() -> None:
    assert set(meanings()) == set(DEFAULTS)
    assert meaning("top_p") == (
        "Keep the fewest tokens, largest first, whose mass reaches p; 1 is off; in (0, 1]."
    )
    assert meaning("tfs_z").endswith("by this share; 1 is off; in (0, 1].")
    assert "arXiv" not in "".join(meaning(name) for name in DEFAULTS)


def test_the_help_states_the_defaults_of_the_default_profile(unspool) -> None:
    params = Decoding.of().params
    assert params == DecodingParams(temperature=0.8, top_p=0.9)
    text = " ".join(unspool("run", "--help").out.replace("│", " ").split())
    assert "[default: 0.8, from the profile]" in text
    assert "[default: 0.9, from the profile]" in text


def test_typed_options_win_over_the_profile(unspool, fake_llm) -> None:
    ran = unspool("run", "Hi", "--json", "--profile", "creative", "--top-p", "0.5")
    params = fake_llm.chats[0][1]
    assert (params.temperature, params.top_p, params.presence_penalty) == (1.0, 0.5, 0.6)
    answer = json.loads(ran.out)
    assert answer["profile"] == "creative"
    assert answer["params"] == params.to_dict()


def test_what_was_typed_rules_out_values_of_the_profile_and_this_is_said(unspool, fake_llm) -> None:
    ran = unspool("run", "Hi", "--profile", "creative", "--mirostat", "2")
    assert "note: beside what was typed, these of profile creative do not apply: top_p" in ran.err
    assert fake_llm.chats[0][1].top_p == 1
    ran = unspool("run", "Hi", "--mirostat", "2")  # nobody asked for the default profile
    assert (ran.exit_code, "note" in ran.err) == (0, False)


def test_a_commands_own_default_yields_to_profile_and_options(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text("max_tokens = 9\n")
    assert Decoding.of(defaults={"max_tokens": 32}).params.max_tokens == 32
    assert Decoding.of(str(mine), defaults={"max_tokens": 32}).params.max_tokens == 9
    assert Decoding.of(str(mine), {"max_tokens": 5}, {"max_tokens": 32}).params.max_tokens == 5


def test_a_commands_own_default_stays_one_where_the_profile_or_the_parameters_change() -> None:
    decoding = Decoding.of(typed={"top_k": 5}, defaults={"seed": 0})
    other = decoding.under("factual")
    assert (other.by_default, other.params.seed, other.params.top_k) == ({"seed"}, 0, 5)
    same = decoding.with_params(replace(decoding.params, top_k=7))
    assert (same.by_default, same.typed) == ({"seed"}, {"top_k": 7, "seed": 0})
    assert decoding.with_params(replace(decoding.params, seed=3)).by_default == set()


def test_another_way_out_takes_the_place_of_the_first_alone() -> None:
    conflict = ParameterConflict(
        "stop='a; b' is odd", ("stop",), way_out="leave it out; it is odd", code="odd"
    )
    other = conflict.ending("take another")
    assert (str(conflict), conflict.code) == ("stop='a; b' is odd; leave it out; it is odd", "odd")
    assert (str(other), other.code, other.names) == ("stop='a; b' is odd; take another", "odd", ("stop",))


def test_the_figures_name_the_profile_that_was_chosen(unspool, fake_llm, tmp_path: Path) -> None:
    assert "profile" not in unspool("run", "Hi").err
    assert unspool("run", "Hi", "--profile", "chat").err.rstrip().endswith("| profile: chat")
    mine = tmp_path / "mine.toml"
    mine.write_text("temperature = 0.1\n")
    assert f"profile: {mine}" in unspool("run", "Hi", "--profile", str(mine)).err


def test_a_default_profile_of_ones_own_is_taken_and_named(unspool, fake_llm, config_folder: Path) -> None:
    (config_folder / "profiles").mkdir(parents=True)
    mine = config_folder / "profiles" / "default.toml"
    mine.write_text("temperature = 0.1\n")
    assert f"profile: {mine}" in unspool("run", "Hi").err
    assert fake_llm.chats[0][1].temperature == 0.1


@pytest.mark.parametrize("value", ["2", "0"])
@pytest.mark.parametrize("name", REPORTS)
def test_a_report_that_nothing_would_print_is_refused(unspool, fake_llm, name: str, value: str) -> None:
    ran = unspool("run", "Hi", option(name), *([] if name == "trace" else [value]))
    assert (ran.exit_code, ran.out) == (2, "")
    assert f"{name} asks for a report that is not printed here; add --json" in ran.err
    assert fake_llm.chats == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--dry-base", "x"), "dry_base must be a number in [1, 100], got 'x'; 1.75 is usual"),
        (("--banned-token-ids", "1,two"), "banned_token_ids holds 'two'"),
        (("--logit-bias", "x=inf"), "logit_bias of 'x' must be a number in [-100, 100], got inf"),
        (("--logit-bias", "x"), "ID=VALUE or TEXT=VALUE"),
        (("--order", "top_k,top_k"), "order names 'top_k' twice"),
        (("--order", "nonsense"), "order must be one of 'unspool'"),
        (("--penalty-scope", "some"), "penalty_scope must be one of 'default'"),
        (("--stop-regex", ""), "each stop_regex must be"),
        (("--set", "tempreture=1"), "did you mean 'temperature'?"),
        (("--set", "top_k"), "NAME=VALUE"),
        (("--set", "ignore_eos=perhaps"), "ignore_eos must be true or false, got 'perhaps'"),
        (("--set", "top_k=1", "--top-k", "2"), "--top-k and --set top_k were both given"),
        (("--profile", "chatt"), "did you mean 'chat'?"),
        (("--profile", ""), "a profile is a name or a path, got ''"),
        (("--profile", "reason"), "give the rest of it by hand (temperature=0.7, top_p=0.95)"),
        (("--profile", "./no-such.toml"), "cannot read the profile no-such.toml: No such file"),
        (("--mirostat", "2", "--top-p", "0.5"), "mirostat replaces every truncation"),
        (("--dry-bas", "2"), "Possible options: --dry-base"),
    ],
)
def test_a_mistake_is_one_line_with_the_way_out(unspool, fake_llm, arguments, said: str) -> None:
    ran = unspool("run", "Hi", *arguments)
    assert (ran.exit_code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 1
    assert said in ran.err


def test_the_help_works_without_docstrings() -> None:
    command = [sys.executable, "-OO", "-m", "unspool"]
    for arguments in (["run", "--help"], ["params"]):
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "--temperature" in done.stdout


def test_one_parameter_is_shown_by_any_of_its_spellings(unspool) -> None:
    for name in ("top_k", "top-k", "--top-k"):
        (fact,) = json.loads(unspool("params", "--json", "--", name).out)
        assert (fact["name"], fact["option"], fact["default"]) == ("top_k", "--top-k", 0)
        assert fact["range"] == "a whole number at least 0"
    assert "did you mean 'top_k'" in unspool("params", "topk").err
