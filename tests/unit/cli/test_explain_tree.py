"""A search tree as lines for people."""

from __future__ import annotations

import json

import pytest
from searching import PROMPT, answers_of, params
from tiny_llm import write_tiny_llm

from unspool.cli.explain_tree import forest_of, print_tree
from unspool.search.beam import Beam
from unspool.search.beam_sample import BeamSample
from unspool.search.diverse_beam import DiverseBeam
from unspool.search.stochastic_beam import StochasticBeam

SEARCHES = [
    Beam(width=3, n_best=2),
    Beam(width=2, early_stopping=True),
    DiverseBeam(width=4, groups=2, strength=2.0, n_best=4),
    BeamSample(width=4, n_best=3),
    StochasticBeam(4),
]


def tree_of(search, **asked):
    seed = 2 if search.draws else None
    asked = params(**{"trace": True, "max_tokens": 14, "seed": seed, **asked})
    return answers_of(search, PROMPT, asked)[0][-1].search_tree


@pytest.mark.parametrize("search", SEARCHES, ids=repr)
def test_every_hypothesis_stands_in_the_tree_once(search):
    tree = tree_of(search)
    lived = [each for step in tree.steps for each in step.considered if each.fate != "dropped"]
    shown = []

    def walk(node, first):
        assert node.first == first
        assert node.what or len(node.children) > 1, "a run ends where it forks or where it is over"
        shown.extend(node.run)
        for child in node.children:
            assert {child.run[0].parent for child in node.children} == {node.run[-1].branch}
            walk(child, first + len(node.run))

    for node in forest_of(tree):
        walk(node, 1)
    assert sorted(map(id, shown)) == sorted(map(id, lived))


@pytest.mark.parametrize("search", SEARCHES, ids=repr)
def test_a_line_has_no_more_than_eighty_columns(search, capsys):
    tree = tree_of(search)
    print_tree(tree, frozenset(), expands_all=True)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    told = "\n".join(lines)
    for rank, (_, score) in enumerate(tree.answers, start=1):
        assert told.count(f"answer {rank}, score {score:.3f}") == 1
    assert [line for line in lines if line.startswith("step ")] == [f"step {s.n_tokens}" for s in tree.steps]


def test_reasons_are_told(capsys):
    print_tree(tree_of(DiverseBeam(width=4, groups=2, strength=5.0)), frozenset({1, 2}), expands_all=False)
    told = capsys.readouterr().out
    assert told.count("group 1\n") == told.count("group 2\n") == 1
    assert "taken by earlier group" in told
    assert "outranked at token" in told


def test_what_has_no_room_is_counted(capsys, monkeypatch):
    monkeypatch.setattr("unspool.search_tree.MOST_CONSIDERED", 20)
    print_tree(tree_of(Beam(width=3)), frozenset(), expands_all=False)
    told = capsys.readouterr().out
    assert "11 later steps are not told" in told
    assert "not told any further" in told


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return str(write_tiny_llm(tmp_path_factory.mktemp("tiny") / "tiny.gguf"))


@pytest.fixture
def explain(unspool, model):
    def call(*arguments, command="explain"):
        return unspool(command, "Hi", "-m", model, "--max-tokens", "6", "--threads", "1", *arguments)

    return call


def test_the_command_shows_the_tree_and_the_answers(explain):
    ran = explain("--search", "beam:width=3", "-n", "2", "--expand", "2", "--ignore-eos")
    assert ran.exit_code == 0, ran.err
    assert ran.out.splitlines()[0].split() == [
        "hypothesis",
        "tokens",
        "logprob",
        "what",
        "became",
        "of",
        "it",
    ]
    assert "answer 1, score" in ran.out
    assert "step 2" in ran.out
    assert [line.split(":")[0] for line in ran.out.splitlines()[-2:]] == ["answer 1", "answer 2"]
    assert ran.err.count("end: token limit") == 2


def test_json_has_the_tree_and_the_search(explain):
    told = json.loads(explain("--search", "beam:width=3", "-n", "2", "--json", "--ignore-eos").out)
    ran = json.loads(
        explain("--search", "beam:width=3", "-n", "2", "--json", "--ignore-eos", command="run").out
    )
    assert [each["token_ids"] for each in told] == [each["token_ids"] for each in ran]
    assert [len(each["search_tree"]["steps"]) for each in told[:1]] == [6]
    assert "search_tree" not in told[1]
    for each in [*told, *ran]:
        assert each["search"]["name"] == "beam"
        assert each["search"]["width"] == 3
        assert each["search"]["n_best"] == 2
    assert json.loads(explain("--json", command="run").out)["search"] == {"name": "sample"}


def test_a_token_of_the_best_answer_is_shown_stage_by_stage(explain):
    ran = explain("--search", "beam:width=3", "--token", "2", "--repetition-penalty", "1.2", "--ignore-eos")
    assert ran.exit_code == 0, ran.err
    assert "repetition" in ran.out
    assert "hypothesis" not in ran.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-n", "2"), "-n is for a --search with several answers"),
        (("--search", "beam", "--expand", "9"), "--expand 9: an answer has at most 6 tokens"),
        (("--search", "beam:width=4", "-n", "5"), "-n 5 is more answers than a search with width=4 has"),
        (("--search", "beam", "--top-k", "3"), "top_k=3 has no meaning in a beam search"),
    ],
)
def test_what_has_no_meaning_is_refused(explain, arguments, message):
    ran = explain(*arguments, "--ignore-eos")
    assert ran.exit_code == 2
    assert message in ran.err


def test_phrases_are_contained_and_their_banks_shown(explain):
    ran = explain("--must-contain", "z|#", "--search", "constrained-beam:width=4", command="run")
    assert ran.exit_code == 0, ran.err
    assert "z" in ran.out or "#" in ran.out
    assert explain("--must-contain", "z|#", command="run").exit_code == 0, "the search needs no name"
    tree = explain("--must-contain", "z", "--search", "constrained-beam:width=4")
    assert "answer 1, score" in tree.out
    refused = explain("--must-contain", "z", "--search", "beam", command="run")
    assert refused.exit_code == 2
    assert "search beam knows no phrases" in refused.err
