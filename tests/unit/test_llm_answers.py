"""Several answers, many prompts, measures: what a front door does beside one answer to one prompt."""

from __future__ import annotations

import itertools
import math

import pytest
from paced import LETTERS, PacedRunner
from tiny_llm import write_tiny_llm

from unspool import LLM, DecodingParams, Limits
from unspool.errors import BadRequest, ContextOverflow

PARAMS = DecodingParams(max_tokens=10, seed=7, ignore_eos=True)
GREEDY = DecodingParams(max_tokens=10, temperature=0, ignore_eos=True)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_tiny_llm(tmp_path_factory.mktemp("model") / "tiny.gguf")


@pytest.fixture(scope="module")
def llm(model):
    with LLM(model, threads=1) as llm:
        yield llm


@pytest.fixture
def toy():
    with LLM.from_parts(PacedRunner(), LETTERS, limits=Limits(n_tasks=4)) as llm:
        yield llm


def test_n_answers_share_the_prompt_and_differ(llm):
    answers = llm.generate("hello", PARAMS, n=4)
    assert [answer.branch for answer in answers] == [0, 1, 2, 3]
    assert len({answer.token_ids for answer in answers}) == 4
    assert {answer.seed for answer in answers} == {7}
    assert answers[0].token_ids == llm.generate("hello", PARAMS).token_ids
    (only,) = llm.generate("hello", PARAMS, n=1)
    assert only.token_ids == answers[0].token_ids


def test_each_of_n_answers_can_be_written_again_alone(llm):
    for answer in llm.generate("hello", DecodingParams(max_tokens=10, logprobs=1), n=3):
        alone = llm.generate(
            "hello", DecodingParams(max_tokens=10, logprobs=1, seed=answer.seed), branch=answer.branch
        )
        assert (alone.token_ids, alone.logprobs) == (answer.token_ids, answer.logprobs)
        assert alone.branch == answer.branch


def test_several_prompts_with_n_answers_are_lists_of_lists(llm):
    every = llm.generate(["hello", "other"], PARAMS, n=2)
    assert [[a.token_ids for a in answers] for answers in every] == [
        [a.token_ids for a in llm.generate(prompt, PARAMS, n=2)] for prompt in ("hello", "other")
    ]


def test_a_stream_of_n_answers_tells_them_by_branch(llm):
    told = ["", "", ""]
    ended = []
    for event in llm.stream("hello", PARAMS, n=3):
        told[event.branch] += event.text
        ended += [event.branch] * (event.finish_reason is not None)
    assert told == [answer.text for answer in llm.generate("hello", PARAMS, n=3)]
    assert sorted(ended) == [0, 1, 2]


def test_a_chat_can_have_n_answers(llm):
    talk = [{"role": "user", "content": "hello"}]
    answers = llm.chat(talk, PARAMS, n=2)
    assert answers[0].token_ids == llm.chat(talk, PARAMS).token_ids != answers[1].token_ids
    texts = ["", ""]
    for event in llm.stream_chat(talk, PARAMS, n=2):
        texts[event.branch] += event.text
    assert texts == [answer.text for answer in answers]


def test_how_a_request_runs_changes_no_token(llm):
    expected = llm.generate("hello again, whatever there is", PARAMS).token_ids
    for how in ({"priority": 5}, {"cache_salt": "a"}, {"cache_salt": ""}, {"use_cache": False}):
        assert llm.generate("hello again, whatever there is", PARAMS, **how).token_ids == expected


def test_salts_keep_what_is_cached_apart():
    with LLM.from_parts(PacedRunner(), LETTERS) as llm:
        prompt = [1, 2, 3, 4] * 4
        cached = [
            llm.generate(prompt, PARAMS, **how).usage.cached_tokens
            for how in ({}, {}, {"cache_salt": "a"}, {"cache_salt": "a"}, {"use_cache": False}, {})
        ]
        assert [n > 0 for n in cached] == [False, True, False, True, False, True]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"n": 0}, "n must be a whole number in"),
        ({"n": True}, "n must be a whole number in"),
        ({"n": 2.0}, "n must be a whole number in"),
        ({"branch": -1}, "branch must be a whole number in"),
        ({"branch": 2**31}, "branch must be a whole number in"),
        ({"priority": "high"}, "priority must be a whole number in"),
        ({"cache_salt": b"a"}, "cache_salt must be a string"),
        ({"use_cache": 0}, "use_cache must be True or False"),
    ],
)
def test_options_without_a_meaning_are_refused(toy, how, words):
    for call in (toy.generate, toy.stream):
        with pytest.raises(BadRequest, match=words):
            call([1], **how)
    with pytest.raises(TypeError, match="nonsense"):
        toy.generate([1], nonsense=1)


# Many prompts


def test_an_endless_iterable_is_read_as_far_as_it_is_needed(toy):
    n_taken = 0

    def prompts():
        nonlocal n_taken
        for i in itertools.count():
            n_taken += 1
            yield [1 + i % 7, 2]

    answers = toy.generate_all(prompts(), GREEDY)
    assert n_taken == 0
    first = list(itertools.islice(answers, 30))
    assert n_taken <= 30 + 2 * 4
    assert [a.token_ids for a in first] == [
        a.token_ids for a in toy.generate([[1 + i % 7, 2] for i in range(30)], GREEDY)
    ]
    answers.close()
    assert toy._worker.call(lambda: toy._engine.is_idle)


def test_prompts_are_taken_in_together_and_not_one_a_step(toy):
    answers = list(toy.generate_all([[1 + i % 7, 2, i % 5] for i in range(40)], GREEDY))
    assert len(answers) == 40
    assert toy.runner.n_forwards < 40 * 10 / 4 * 1.5  # four at once


def test_parameters_may_come_one_by_one_and_answers_in_lists(toy):
    params = [PARAMS.replace(seed=seed) for seed in range(9)]
    every = list(toy.generate_all(([1, 2] for _ in range(9)), iter(params), n=2))
    assert [[a.token_ids for a in answers] for answers in every] == [
        [a.token_ids for a in toy.generate([1, 2], p, n=2)] for p in params
    ]
    for n_prompts, says in ((3, "params ended after 2 prompts; "), (1, "prompts ended after 1 params; ")):
        with pytest.raises(BadRequest, match=f"^{says}give one for each$") as caught:
            list(toy.generate_all([[1]] * n_prompts, params[:2]))
        assert caught.value.code == "bad_params"


def test_a_prompt_that_is_refused_raises_in_its_turn(toy):
    answers = toy.generate_all([[1], [2], [99], [3]], GREEDY)
    assert [len(next(answers).token_ids), len(next(answers).token_ids)] == [10, 10]
    with pytest.raises(BadRequest, match="token id 99"):
        next(answers)
    assert toy._worker.call(lambda: toy._engine.is_idle)
    with pytest.raises(BadRequest, match="generate_all takes several prompts"):
        toy.generate_all("one", GREEDY)
    with pytest.raises(BadRequest, match="params must be DecodingParams"):
        toy.generate_all([[1]], 0.5)


def test_progress_is_drawn_on_a_terminal_alone(toy, capfd, monkeypatch):
    assert len(list(toy.generate_all([[1], [2]], GREEDY, progress=True))) == 2
    assert capfd.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for prompts in ([[1], [2], [3]], iter([[1], [2], [3]])):
        assert len(list(toy.generate_all(prompts, GREEDY, progress=True))) == 3
        assert "3/3" in (err := capfd.readouterr().err) or "3/?" in err


# Measures


def test_a_score_is_the_sum_of_its_tokens(llm):
    score = llm.score("hello, world")
    assert score.token_ids == tuple(llm.tokenize("hello, world"))
    done = llm.generate("hello, world", GREEDY.replace(prompt_logprobs=0))
    assert score.logprobs == done.prompt_logprobs
    assert score.sum_logprob == pytest.approx(sum(entry.token.logprob for entry in score.logprobs))
    assert score.perplexity == llm.perplexity("hello, world")
    assert score.perplexity == pytest.approx(math.exp(-score.sum_logprob / 11))
    assert llm.score(llm.tokenize("hello, world")) == score


def expected_logprobs(llm, ids, n_begin, n_window, stride):
    """Token by token, by the words of the docs."""
    begin, rest = ids[:n_begin], ids[n_begin:]
    n_known, told = 1 - n_begin, []
    start = 0
    while True:
        window = begin + rest[start : start + n_window]
        scored = llm.generate(window, GREEDY.replace(prompt_logprobs=0, max_tokens=1)).prompt_logprobs
        told += scored[n_known - (start + 1 - n_begin) :]
        n_known = len(told) + 1 - n_begin
        if start + n_window >= len(rest):
            return tuple(told)
        start += stride


@pytest.mark.parametrize("n_begin", [0, 1])
@pytest.mark.parametrize("n", [2, 31, 32, 33, 100])
@pytest.mark.parametrize("stride", [None, 1, 7, 30])
def test_a_text_longer_than_the_context_is_scored_in_windows(model, monkeypatch, n_begin, n, stride):
    if stride == 1 and n == 100:
        pytest.skip("seventy windows")
    with LLM(model, threads=1, context_length=33) as llm:
        ids = [65 + i * i % 50 for i in range(n)]
        monkeypatch.setattr(llm.tokenizer, "bos_id", ids[0] if n_begin else None)
        score = llm.score(ids, stride=stride)
        assert score.token_ids == tuple(ids)
        assert len(score.logprobs) == n - 1
        assert [e.token.token_id for e in score.logprobs] == ids[1:]
        n_window = 32 - n_begin
        assert score.logprobs == expected_logprobs(llm, ids, n_begin, n_window, stride or n_window // 2)


def test_what_cannot_be_scored_is_refused(llm, model):
    for text in ("", "a", [5]):
        with pytest.raises(BadRequest, match=r"a text of \d tokens has none to score"):
            llm.score(text)
    for stride in (0, 127, True, 1.5):
        with pytest.raises(BadRequest, match=r"stride must be a whole number in \[1, 126\]"):
            llm.perplexity("hello", stride=stride)
    with LLM(model, context_length=2) as small, pytest.raises(ContextOverflow, match="too short to score"):
        small.score("hello")
