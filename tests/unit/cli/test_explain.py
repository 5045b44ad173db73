"""`unspool explain` on a tiny model, whose every number `LLM` gives too."""

from __future__ import annotations

import json

import pytest
from tiny_llm import write_tiny_llm

from unspool import LLM, DecodingParams
from unspool.cli import explain_plot
from unspool.errors import NoCandidate


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return str(write_tiny_llm(tmp_path_factory.mktemp("tiny") / "tiny.gguf"))


@pytest.fixture
def explain(unspool, model):
    def call(*arguments, command="explain"):
        return unspool(
            command,
            *("Hi", "-m", model, "--seed", "3", "--threads", "1"),
            *(() if "--max-tokens" in arguments else ("--max-tokens", "6")),
            *arguments,
        )

    return call


def test_each_token_has_a_line_and_the_figures_go_to_standard_error(explain):
    ran = explain("--ignore-eos")
    assert ran.exit_code == 0, ran.err
    head, *lines = ran.out.splitlines()
    assert head.split("  ")[1].strip() == "#"
    assert [line.split()[0] for line in lines] == list("123456")
    assert all("258 → " in line and "top_p" in line for line in lines)
    assert "end: token limit | seed: 3" in ran.err
    assert explain("--quiet").err == ""


def test_it_writes_the_tokens_that_run_writes(explain):
    told = json.loads(explain("--json", "--ignore-eos").out)
    run = json.loads(explain("--json", "--ignore-eos", command="run").out)
    assert told["token_ids"] == run["token_ids"]
    assert [each["token_id"] for each in told["trace"]] == run["token_ids"]
    assert "trace" not in run
    assert told["params"]["trace"] is True


def test_json_has_what_the_front_door_says(explain, model):
    told = json.loads(explain("--raw", "--json", "--ignore-eos").out)
    with LLM(model) as llm:
        done = llm.generate(
            "Hi",
            DecodingParams(temperature=0.8, top_p=0.9, seed=3, max_tokens=6, ignore_eos=True, trace=True),
        )
    assert [each["prob_final"] for each in told["trace"]] == [each.chosen.prob_final for each in done.trace]
    stages = [stage["stage"] for stage in told["trace"][0]["stages"]]
    assert stages == ["temperature", "top_p"]


def test_the_token_that_ends_the_text_is_shown(unspool, model):
    hot = DecodingParams(temperature=50, max_tokens=None)
    with LLM(model) as llm:
        [end] = llm.tokenizer.eos_ids
        name = llm.tokenizer.token_text(end)
        seed = next(n for n in range(99) if llm.generate("Hi", hot.replace(seed=n)).finish_reason == "stop")
    ran = unspool(
        *("explain", "--raw", "Hi", "-m", model, "--seed", str(seed), "--temperature", "50", "--top-p", "1"),
        *("--max-tokens", "none"),
    )
    assert f"end: end of text (token {end})" in ran.err
    assert f'"{name}"' in ran.out.splitlines()[-1]


def test_a_token_can_be_expanded_below_its_line_or_shown_alone(explain):
    plain = explain("--ignore-eos").out
    below = explain("--ignore-eos", "--expand", "2").out
    assert set(plain.splitlines()) < set(below.splitlines())
    assert [line.split()[0] for line in below.splitlines() if line].index("temperature") == 4
    alone = explain("--ignore-eos", "--token", "2").out
    assert [line.split()[0] for line in alone.splitlines() if line][:3] == ["#", "2", "stage"]
    every = explain("--ignore-eos", "--expand", "all").out
    assert every.count("      left    ") == 6


def test_a_token_that_the_answer_does_not_have_is_an_error(explain):
    for option in ("--token", "--expand"):
        ran = explain("--ignore-eos", "--context", "40", "--max-tokens", "none", option, "99")
        assert ran.exit_code == 2
        assert f"error: {option} 99: the answer has " in ran.err


def test_a_token_that_no_answer_can_have_is_refused_before_there_is_one(unspool, fake_llm):
    for option in ("--token", "--expand"):
        ran = unspool("explain", "Hi", "--max-tokens", "6", option, "7")
        assert (ran.exit_code, fake_llm.asked) == (2, {})
        assert f"error: {option} 7: an answer has at most 6 tokens; name one of them, or raise" in ran.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--token", "0"), "--token must be a whole number, at least 1, got 0"),
        (("--expand", "some"), "--expand must be a token's number or all, got 'some'"),
        (("--token", "1", "--expand", "all"), "--token shows one token, expanded"),
        (("--json", "--expand", "1"), "--json has every stage of every token"),
        (("--json", "--token", "1"), "--json has every token"),
        (("--plot", "p.gif"), "--plot must name a .png or .svg file"),
        (("--raw", "--system", "x"), "--system needs the chat template"),
    ],
)
def test_what_cannot_be_shown_is_refused_before_a_model_is_loaded(unspool, fake_llm, arguments, said):
    ran = unspool("explain", "Hi", *arguments)
    assert (ran.exit_code, bool(ran.out)) == (2, "--json" in arguments)
    assert said in ran.err
    assert fake_llm.asked == {}


def test_a_picture_shows_the_token_that_is_asked_for_or_the_first(explain, monkeypatch, tmp_path):
    drawn = []
    monkeypatch.setattr(explain_plot, "_figure_class", lambda: None)
    monkeypatch.setattr(explain_plot, "draw", lambda picture, path: drawn.append((picture, path)))
    assert explain("--ignore-eos", "--plot", str(tmp_path / "p.svg")).exit_code == 0
    assert explain("--json", "--ignore-eos", "--plot", str(tmp_path / "q.png"), "--token", "3").exit_code == 0
    assert [(picture.title[:7], path.name) for picture, path in drawn] == [
        ("token 1", "p.svg"),
        ("token 3", "q.png"),
    ]
    assert drawn[0][0].steps == ("model", "temperature", "top_p")


def test_an_answer_that_fails_is_an_error(unspool, fake_llm):
    fake_llm.fails = NoCandidate("no token can be chosen")
    ran = unspool("explain", "Hi")
    assert (ran.exit_code, ran.err) == (1, "error: no token can be chosen\n")
    assert fake_llm.is_closed


def test_32_tokens_are_explained_unless_more_are_asked_for(unspool, fake_llm):
    unspool("explain", "Hi", "--system", "Be brief.")
    unspool("explain", "Hi", "--max-tokens", "none")
    assert [params.max_tokens for _, params in fake_llm.chats] == [32, None]
    assert fake_llm.chats[0][0][0] == {"role": "system", "content": "Be brief."}
    assert fake_llm.chats[0][1].trace
