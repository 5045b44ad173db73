"""`unspool run --amateur ... --contrast ...`, --guidance-scale and --negative-prompt."""

from __future__ import annotations

import pytest


def asked(ran, fake_llm):
    assert ran.exit_code == 0, ran.err
    return fake_llm.chats[0][1]


def test_an_amateur_alone_has_the_papers_settings(unspool, fake_llm) -> None:
    params = asked(unspool("run", "Hi", "--amateur", "small"), fake_llm)
    assert (params.contrast_alpha, params.contrast_beta) == (0.1, 0.5)
    assert fake_llm.asked["amateur"] == "small"


@pytest.mark.parametrize(
    ("text", "alpha", "beta"),
    [("alpha=0.2,beta=1.5", 0.2, 1.5), ("beta=2", 0.1, 2), ("alpha=0.3", 0.3, 0.5), (" beta = 1", 0.1, 1)],
)
def test_contrast_says_how_much(unspool, fake_llm, text: str, alpha: float, beta: float) -> None:
    params = asked(unspool("run", "Hi", "--amateur", "small", "--contrast", text), fake_llm)
    assert (params.contrast_alpha, params.contrast_beta) == (alpha, beta)


def test_explain_has_both_options(unspool, fake_llm) -> None:
    unspool("explain", "Hi", "--json", "--amateur", "small", "--contrast", "beta=1")
    assert fake_llm.chats[0][1].contrast_beta == 1
    assert fake_llm.asked["amateur"] == "small"


def test_a_profile_may_guide_and_its_contrast_asks_for_an_amateur(unspool, fake_llm, tmp_path) -> None:
    profile = tmp_path / "away.toml"
    profile.write_text('description = "x"\nguidance_scale = 1.5\nnegative_prompt = "dull"\n')
    params = asked(unspool("run", "Hi", "--profile", str(profile)), fake_llm)
    assert (params.guidance_scale, params.negative_prompt) == (1.5, "dull")
    profile.write_text('description = "x"\ncontrast_beta = 0.25\n')
    ran = unspool("run", "Hi", "--profile", str(profile))
    assert ran.exit_code == 2
    assert f"contrast_beta=0.25 of profile {profile} is a contrast, which needs a second model" in ran.err
    assert "add --amateur" in ran.err
    ran = unspool("run", "Hi", "--profile", str(profile), "--amateur", "small")
    assert fake_llm.chats[-1][1].contrast_beta == 0.25


@pytest.mark.parametrize("options", [["--contrast", "beta=0"], ["--contrast-beta", "0"]])
def test_a_beta_of_0_is_no_contrast_by_either_option(unspool, fake_llm, tmp_path, options: list[str]) -> None:
    profile = tmp_path / "away.toml"
    profile.write_text('description = "x"\ncontrast_beta = 0.25\n')
    for more in ([], ["--profile", str(profile)]):
        ran = unspool("run", "Hi", *options, *more)
        assert (ran.exit_code, fake_llm.chats[-1][1].contrast_beta) == (0, 0), ran.err
    ran = unspool("run", "Hi", *options, "--amateur", "small")
    assert "no part in it while beta is 0" in ran.err


def test_alpha_alone_is_a_contrast(unspool, fake_llm) -> None:
    ran = unspool("run", "Hi", "--contrast", "alpha=0.3")
    assert ran.exit_code == 2
    assert "--contrast alpha=0.3 is a contrast, which needs a second model" in ran.err


def test_without_an_amateur_no_second_model_is_loaded(unspool, fake_llm) -> None:
    params = asked(unspool("run", "Hi"), fake_llm)
    assert params.contrast_beta == 0
    assert fake_llm.asked["amateur"] is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--contrast", "beta=1"], "add --amateur"),
        (["--contrast-beta", "1"], "add --amateur"),
        (["--amateur", "small", "--contrast", "beta=0"], "no part in it while beta is 0"),
        (["--amateur", "small", "--contrast", "gamma=1"], "takes alpha=X and beta=X"),
        (["--amateur", "small", "--contrast", "beta"], "takes alpha=X and beta=X"),
        (["--amateur", "small", "--contrast", "beta=1,beta=2"], "keep one"),
        (["--amateur", "small", "--contrast", "beta=1", "--contrast-beta", "2"], "keep one"),
        (
            ["--amateur", "small", "--contrast", "beta=-1"],
            "contrast_beta must be a number in [0, 100], got -1",
        ),
        (
            ["--amateur", "small", "--contrast", "alpha=x"],
            "contrast_alpha must be a number in [0, 1], got 'x'",
        ),
        (["--set", "penalty_alpha=0.6"], "needs hidden states"),
        (["--search", "dola"], "needs hidden states"),
    ],
)
def test_what_cannot_be_is_refused(unspool, fake_llm, options: list[str], words: str) -> None:
    ran = unspool("run", "Hi", *options)
    assert ran.exit_code == 2
    assert words in ran.err
    assert fake_llm.asked == {}


def test_guidance_and_its_prompt_are_parameters(unspool, fake_llm) -> None:
    ran = unspool("run", "Hi", "--guidance-scale", "1.5", "--negative-prompt", "[3, 4]")
    params = asked(ran, fake_llm)
    assert (params.guidance_scale, params.negative_prompt) == (1.5, (3, 4))


def test_a_negative_prompt_without_guidance_is_said_to_change_nothing(unspool, fake_llm) -> None:
    ran = unspool("run", "Hi", "--negative-prompt", "bad")
    assert ran.exit_code == 0
    assert "these change nothing: negative_prompt" in ran.err
