"""Searches through the front doors."""

from __future__ import annotations

import asyncio

import pytest
from tiny_llm import write_tiny_llm

from unspool import LLM, AsyncLLM, Beam, BeamSample, ConstrainedBeam, DecodingParams, StochasticBeam
from unspool.errors import BadRequest

PARAMS = DecodingParams(max_tokens=8, ignore_eos=True, logprobs=0)


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    with LLM(write_tiny_llm(tmp_path_factory.mktemp("tiny") / "tiny.gguf"), runner="reference") as llm:
        yield llm


def test_a_beam_of_one_writes_what_greedy_decoding_writes(llm):
    greedy = llm.generate("abc", PARAMS.replace(temperature=0))
    assert llm.generate("abc", PARAMS, search=Beam(width=1)).token_ids == greedy.token_ids


def test_several_answers_come_best_first_with_their_scores(llm):
    answers = llm.generate("abc", PARAMS, n=3, search=Beam(width=4, n_best=3))
    scores = [answer.score for answer in answers]
    assert scores == sorted(scores, reverse=True)
    assert len({answer.token_ids for answer in answers}) == 3
    assert [answer.branch for answer in answers] == [0, 1, 2]
    assert {answer.seed for answer in answers} == {None}


def test_a_stream_of_beams_joins_to_the_best_answer(llm):
    best = llm.generate("abc", PARAMS, search=Beam(width=3))
    events = list(llm.stream("abc", PARAMS, search=Beam(width=3)))
    assert "".join(event.text for event in events) == best.text
    assert tuple(i for event in events for i in event.token_ids) == best.token_ids
    assert events[-1].score == best.score


def test_a_search_beside_others_finds_what_it_finds_alone(llm):
    alone = llm.generate("abc", PARAMS, search=Beam(width=3))
    prompts = ["abc", "abcd", "x", "abc"]
    for answer in (llm.generate(prompts, PARAMS, search=Beam(width=3))[i] for i in (0, 3)):
        assert (answer.token_ids, answer.score) == (alone.token_ids, alone.score)


def test_drawn_texts_report_their_seed_and_come_again_with_it(llm):
    first = llm.generate("abc", PARAMS, n=3, search=StochasticBeam(3))
    again = llm.generate("abc", PARAMS.replace(seed=first[0].seed), n=3, search=StochasticBeam(3))
    assert [answer.token_ids for answer in again] == [answer.token_ids for answer in first]


def test_texts_contain_what_they_must_and_a_stream_joins_to_the_best(llm):
    search = ConstrainedBeam(phrases=["zq", ["#", "%"]], width=6, n_best=3)
    answers = llm.generate("abc", PARAMS, n=3, search=search)
    for answer in answers:
        assert "zq" in answer.text
        assert "#" in answer.text or "%" in answer.text
    heard = [event for event in llm.stream("abc", PARAMS, n=3, search=search) if event.branch == 0]
    assert "".join(event.text for event in heard) == answers[0].text


def test_a_drawn_beam_comes_again_with_its_seed(llm):
    first = llm.generate("abc", PARAMS, search=BeamSample(width=3))
    again = llm.generate(["x", "abc"], PARAMS.replace(seed=first.seed), search=BeamSample(width=3))[1]
    assert (again.token_ids, again.score) == (first.token_ids, first.score)


def test_the_asyncio_door_searches_too(llm):
    async def ask():
        return await AsyncLLM.of(llm).generate("abc", PARAMS, search=Beam(width=2))

    assert asyncio.run(ask()).token_ids == llm.generate("abc", PARAMS, search=Beam(width=2)).token_ids


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"search": Beam(width=4, n_best=2)}, "Beam has 2 answers and no n was given; give n=2"),
        ({"search": Beam(), "n": 3}, "Beam has 1 answers and n=3 was given"),
        ({"search": Beam}, "search must be a search such as Beam(width=4), or None to sample, got <class"),
        ({"search": "beam"}, "search must be a search such as Beam(width=4), or None to sample, got 'beam'"),
        ({"temperature": 0}, "a request has no option 'temperature'; write DecodingParams(temperature=...)"),
        ({"prio": 1}, "a request has no option 'prio'; known are n, branch, priority, cache_salt,"),
        ({"search": Beam(), "branch": 2}, "branch=2 is for answers that are sampled, not for Beam"),
    ],
)
def test_a_mistake_is_told_with_the_way_out(llm, how, message):
    with pytest.raises(BadRequest) as caught:
        llm.generate("abc", PARAMS, **how)
    assert message in str(caught.value)
