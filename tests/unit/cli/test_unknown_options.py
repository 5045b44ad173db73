"""Options that a command does not have, and that people know from elsewhere."""

from __future__ import annotations

import re

import pytest

from unspool.cli.param_words import DEFAULTS
from unspool.cli.unknown_options import _OTHERWISE
from unspool.search.named import search_of

COMMANDS = (("run", "Hi"), ("explain", "Hi"), ("best", "Hi"), ("chat",), ("eval", "humaneval"))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--penalty-alpha", "--penalty-alpha: contrastive search (Su et al. 2022, arXiv 2202.06417) is not"),
        ("--dola-layers", "--dola-layers: DoLa (Chuang et al. 2023, arXiv 2309.03883) is not supported"),
        ("--dola_layers", "needs hidden states; contrast_beta with an amateur model"),
        ("--num-beams", "there is no --num-beams here; beams are a search of their own: --search beam"),
        ("--max-new-tokens", "there is no --max-new-tokens here; --max-tokens is what it is called"),
        ("--n-predict", "there is no --n-predict here; --max-tokens is what it is called"),
        ("--repeat-penalty", "there is no --repeat-penalty here; --repetition-penalty is what it is called"),
    ],
)
def test_options_of_other_engines_are_refused_by_name_with_what_there_is(
    unspool, fake_llm, command, option, says
):
    ran = unspool(*command, option, "0.6")
    assert (ran.exit_code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert says in ran.err
    assert fake_llm.asked == {}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "Hi", "--verifier", "x"], "`unspool run` has no --verifier; `unspool best` has it; see"),
        (
            ["best", "Hi", "--logprobs", "2"],
            "no --logprobs; `unspool run` and `explain` have it",
        ),
        (
            ["eval", "arithmetic", "--must-contain", "x"],
            "`unspool eval arithmetic` has no --must-contain; `",
        ),
        (["bench", "--kv", "3"], "`unspool bench` has no --kv; `unspool run`, "),
        (["models", "list", "--memory", "3"], "`unspool models list` has no --memory; `unspool kv` has it"),
    ],
)
def test_an_option_of_another_command_names_that(unspool, arguments, says):
    ran = unspool(*arguments)
    assert (ran.exit_code, ran.out) == (2, "")
    assert says in ran.err


def test_a_slip_still_gets_the_options_that_are_near(unspool):
    ran = unspool("run", "Hi", "--tempratur", "1")
    assert ran.exit_code == 2
    assert "No such option: --tempratur" in ran.err
    assert "--temperature" in ran.err


@pytest.mark.parametrize("name", _OTHERWISE)
def test_what_is_offered_instead_is_there(unspool, name):
    assert name not in DEFAULTS
    for search in re.findall(r"\b((?:diverse-)?beam:[\w=,.]+)", _OTHERWISE[name]):
        assert search_of(search, None) is not None
    helps = unspool("run", "--help").out
    for option in re.findall(r"(?<!\w)--?[a-z][a-z-]*", _OTHERWISE[name]):
        assert option in helps, option


@pytest.mark.parametrize("command", [("run", "Hi"), ("chat",), ("best", "Hi")])
def test_greedy_is_offered_as_a_temperature(unspool, command):
    ran = unspool(*command, "--greedy")
    assert ran.exit_code == 2
    assert "there is no --greedy here; --temperature 0 takes the likeliest token" in ran.err


@pytest.mark.parametrize("option", ["--dola", "--num-beams", "--max-new-tokens", "--do-sample"])
@pytest.mark.parametrize("command", [("models", "list"), ("bench",)])
def test_nothing_is_offered_that_the_command_does_not_have(unspool, command, option):
    ran = unspool(*command, option, "3")
    assert (ran.exit_code, ran.out) == (2, "")
    assert f"No such option: {option}" in ran.err
    assert "--amateur" not in ran.err


def test_a_chat_has_no_number_of_answers_to_offer(unspool):
    assert "-n says" not in unspool("chat", "--num-return-sequences", "3").err
    assert "-n says" in unspool("run", "Hi", "--num-return-sequences", "3").err
