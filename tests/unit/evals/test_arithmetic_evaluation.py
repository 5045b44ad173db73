"""What is read out of an answer to a word problem, and what votes make of it."""

from __future__ import annotations

import pytest
from answers import answer
from tiny_llm import write_tiny_llm

from unspool import LLM
from unspool.evals.arithmetic import questions_of, sample_figures, single_figures, stop_for
from unspool.evals.question import Answer
from unspool.evals.word_problems import WordProblem

PROBLEM = WordProblem("arithmetic/0", "How many?", 1200, 2)


@pytest.fixture(scope="module")
def question(tmp_path_factory):
    path = write_tiny_llm(tmp_path_factory.mktemp("model") / "tiny.gguf", context_length=1024)
    with LLM(path, threads=1) as llm:
        (question,) = questions_of(llm, [PROBLEM])
        yield llm.detokenize(question.prompt_ids), question


def test_the_question_stands_behind_worked_examples_in_a_chat_where_there_is_a_template(question, tmp_path):
    text, _ = question
    assert text.startswith("u:Solve each problem")
    assert text.endswith("Answer: 76\nu:How many?\na:")
    bare = write_tiny_llm(tmp_path / "bare.gguf", chat_template=None, context_length=1024)
    with LLM(bare, threads=1) as llm:
        (raw,) = questions_of(llm, [PROBLEM])
        assert llm.detokenize(raw.prompt_ids).startswith("Solve each problem")
        assert llm.detokenize(raw.prompt_ids).endswith("Answer: 76\n\nHow many?\n")
        assert stop_for(llm) == ("\n\n",)


@pytest.mark.parametrize(
    ("text", "found", "is_right"),
    [
        ("3 * 400 = 1200\nAnswer: 1200", "1200", True),
        ("Answer: 5\nNo.\nANSWER: **1,200**", "1200", True),
        ("answer: $01200.", "1200", True),
        ("Answer: -7", "-7", False),
        ("Answer: -0", "0", False),
        ("Answer: 12000", "12000", False),
        (f"Answer: {'9' * 6000}", "9" * 6000, False),
        ("It is 1200", None, False),
        ("", None, False),
    ],
)
def test_the_last_number_behind_the_word_is_the_answer(question, text, found, is_right):
    assert question[1].judge(answer(text)) == {"answer": found, "correct": is_right}


def told(question, *results):
    """Samples of a problem whose right answer is 1."""
    return [
        Answer(question, "sample", i, "", "stop", 1, {"answer": result, "correct": result == "1"})
        for i, result in enumerate(results)
    ]


def test_the_majority_against_a_single_sample():
    samples = {
        "a": told("a", "1", "2", "1", "1"),
        "b": told("b", "2", "1", "2", None),
        "c": told("c", None, None, None, "1"),
        "d": told("d", None, None, None, None),
    }
    single, vote, margin = sample_figures(samples, 4)
    assert single.interval.estimate == pytest.approx((3 + 1 + 1 + 0) / 16)
    assert vote.name == "right, majority of 4"
    assert vote.interval.estimate == 0.5  # a and c; those without an answer abstain
    assert margin.interval.estimate == pytest.approx(0.5 - 5 / 16)
    assert margin.is_difference
    assert margin.interval.low <= margin.interval.estimate <= margin.interval.high


def test_one_sample_has_no_vote():
    assert [figure.name for figure in sample_figures({"a": told("a", "1")}, 1)] == ["right, one sample"]


def test_greedy_answers_have_a_score_interval():
    (figure,) = single_figures({"a": told("a", "1"), "b": told("b", "3")})
    assert (figure.interval.estimate, figure.n_problems, figure.how) == (0.5, 2, "Wilson")
