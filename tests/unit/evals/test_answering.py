"""Questions through a tiny model: the answers are those that requests alone get, however a run was cut up."""

from __future__ import annotations

import threading

import pytest
from tiny_llm import write_tiny_llm

from unspool import LLM, DecodingParams
from unspool.errors import VerifierError
from unspool.evals.answer_file import AnswerFile, Key
from unspool.evals.answering import Wanted, answer_all, n_missing
from unspool.evals.question import Question, seed_of

SAMPLE = DecodingParams(max_tokens=9, seed=3, temperature=1.0)
GREEDY = DecodingParams(max_tokens=9, temperature=0)


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    with LLM(write_tiny_llm(tmp_path_factory.mktemp("model") / "tiny.gguf"), threads=1) as llm:
        yield llm


@pytest.fixture(autouse=True)
def nothing_stays_behind(llm):
    yield
    llm._worker.call(llm._engine.check)
    assert llm._engine.is_idle


@pytest.fixture
def open_file(tmp_path):
    return lambda name="a": AnswerFile(tmp_path / f"{name}.jsonl", {})


def questions_of(llm, n=5, judge=None):
    return [
        Question(f"t/{i}", tuple(llm.tokenize(f"tell {i}")), judge or (lambda c: {"length": len(c.text)}))
        for i in range(n)
    ]


def texts(file, questions, wanted):
    return {
        (question.name, branch): file[Key(question.name, wanted.series, branch)]
        for question in questions
        for branch in range(wanted.n)
    }


@pytest.mark.parametrize("concurrency", [1, 7, 64])
def test_answers_are_those_of_requests_alone(llm, open_file, concurrency):
    questions, wanted = questions_of(llm), Wanted("sample", SAMPLE, 3)
    with open_file() as file:
        answer_all(llm, questions, wanted, file, concurrency=concurrency)
        for question in questions:
            params = DecodingParams(max_tokens=9, seed=seed_of(3, question.name), temperature=1.0)
            alone = llm.generate(question.prompt_ids, params, n=3)
            for branch, completion in enumerate(alone):
                answer = file[Key(question.name, "sample", branch)]
                assert (answer.text, answer.finish_reason) == (completion.text, completion.finish_reason)
                assert answer.n_tokens == len(completion.token_ids)
                assert answer.marks == {"length": len(completion.text)}


def test_greedy_answers_take_no_seed(llm, open_file):
    questions, wanted = questions_of(llm, 2), Wanted("greedy", GREEDY, 1)
    with open_file() as file:
        answer_all(llm, questions, wanted, file, concurrency=2)
        for question in questions:
            alone = llm.generate(question.prompt_ids, GREEDY)
            assert file[Key(question.name, "greedy", 0)].text == alone.text


def test_problems_have_seeds_of_their_own():
    seeds = {seed_of(seed, f"t/{i}") for seed in range(3) for i in range(50)}
    assert len(seeds) == 150
    assert all(0 <= seed < 2**64 for seed in seeds)


def test_more_answers_and_more_problems_leave_those_that_are_there(llm, open_file):
    questions = questions_of(llm)
    with open_file("whole") as whole, open_file("parts") as parts:
        answer_all(llm, questions, Wanted("sample", SAMPLE, 5), whole, concurrency=8)
        for n, n_questions in ((2, 2), (4, 3), (5, 5)):
            answer_all(llm, questions[:n_questions], Wanted("sample", SAMPLE, n), parts, concurrency=8)
        wanted = Wanted("sample", SAMPLE, 5)
        assert texts(parts, questions, wanted) == texts(whole, questions, wanted)


def test_only_what_is_missing_is_asked_for(llm, open_file):
    questions, wanted = questions_of(llm, 3), Wanted("sample", SAMPLE, 4)
    with open_file("whole") as whole, open_file("parts") as parts:
        answer_all(llm, questions, wanted, whole, concurrency=8)
        kept = [whole[Key("t/0", "sample", b)] for b in (0, 2)] + [whole[Key("t/1", "sample", 3)]]
        parts.add(kept)
        assert n_missing(questions, wanted, parts) == 9
        heard = []
        answer_all(llm, questions, wanted, parts, concurrency=8, watch=heard.extend)
        assert sorted((a.question, a.branch) for a in heard) == sorted(
            {(t.name, b) for t in questions for b in range(4)} - {(a.question, a.branch) for a in kept}
        )
        assert texts(parts, questions, wanted) == texts(whole, questions, wanted)
        assert n_missing(questions, wanted, parts) == 0


def test_a_request_has_no_more_answers_than_are_decoded_side_by_side(llm, open_file, monkeypatch):
    asked, stream = [], llm.stream
    monkeypatch.setattr(llm, "stream", lambda *a, **how: asked.append(how) or stream(*a, **how))
    questions, params = questions_of(llm, 1), DecodingParams(max_tokens=1, seed=3, temperature=1.0)
    wanted = Wanted("sample", params, 600)  # more than a step of the engine has rows
    with open_file() as file:
        answer_all(llm, questions, wanted, file, concurrency=256)
        found = texts(file, questions, wanted)
    # On threads of a pool: whose turn it is to decode is theirs to find out.
    assert sorted((how["branch"], how["n"]) for how in asked) == [(0, 256), (256, 256), (512, 88)]
    how = {"n": 1, "branch": 599}
    alone = llm.generate(
        questions[0].prompt_ids, DecodingParams(**params.to_dict() | {"seed": seed_of(3, "t/0")}), **how
    )
    assert found["t/0", 599].text == alone[0].text


def test_answers_of_the_same_text_are_judged_once(llm, open_file):
    texts_judged = []

    def judge(completion):
        texts_judged.append(completion.text)
        return {"nth": len(texts_judged)}

    questions, params = questions_of(llm, 1, judge), DecodingParams(max_tokens=1, seed=3, temperature=0.2)
    with open_file() as file:
        answer_all(llm, questions, Wanted("sample", params, 12), file, concurrency=12)
        answers = [file[Key("t/0", "sample", branch)] for branch in range(12)]
    assert len(texts_judged) == len(set(texts_judged)) == len({a.text for a in answers}) < 12
    assert {a.text: a.marks["nth"] for a in answers} == {t: i for i, t in enumerate(texts_judged, start=1)}


def test_a_run_that_is_cut_short_keeps_what_it_had_and_goes_on_to_the_same_end(llm, open_file):
    questions, wanted = questions_of(llm, 6), Wanted("sample", SAMPLE, 2)

    def interrupt(answers):
        if len(heard.append(answers) or heard) == 2:
            raise KeyboardInterrupt

    heard = []
    with open_file("whole") as whole:
        answer_all(llm, questions, wanted, whole, concurrency=4)
        with open_file("parts") as parts, pytest.raises(KeyboardInterrupt):
            answer_all(llm, questions, wanted, parts, concurrency=1, watch=interrupt)
        with open_file("parts") as parts:
            assert 2 <= len(parts) < 12
            answer_all(llm, questions, wanted, parts, concurrency=4)
            assert texts(parts, questions, wanted) == texts(whole, questions, wanted)


def test_a_judge_that_fails_ends_the_run_with_its_error(llm, open_file):
    def judge(completion):
        raise VerifierError("no sandbox here", code="no_sandbox")

    with open_file() as file, pytest.raises(VerifierError, match="no sandbox here"):
        answer_all(llm, questions_of(llm, 4, judge), Wanted("sample", SAMPLE, 2), file, concurrency=2)


def test_an_interrupt_ends_answers_that_are_still_being_written(llm, open_file):
    long = DecodingParams(max_tokens=None, ignore_eos=True, temperature=0)
    questions = [Question("short", tuple(llm.tokenize("a" * 120)), lambda c: {}), *questions_of(llm, 3)]
    is_judged = threading.Event()

    def interrupt(answers):
        is_judged.set()
        raise KeyboardInterrupt

    with open_file() as file, pytest.raises(KeyboardInterrupt):
        answer_all(llm, questions, Wanted("greedy", long, 1), file, concurrency=4, watch=interrupt)
    assert is_judged.is_set()
