"""What is no prompt is refused at the border, and by both doors in the same words."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
from tiny_llm import write_tiny_llm

from unspool import LLM, AsyncLLM, BestOf, DecodingParams
from unspool.errors import BadRequest
from unspool.search.verifiers.logprob import MeanLogprob

PARAMS = DecodingParams(max_tokens=2, seed=1)
BEST = BestOf(n=2, verifier=MeanLogprob())
ASK = {
    "generate": lambda door, prompt: door.generate(prompt, PARAMS),
    "generate_all": lambda door, prompt: door.generate_all(prompt, PARAMS),
    "stream": lambda door, prompt: door.stream(prompt, PARAMS),
    "score": lambda door, prompt: door.score(prompt),
    "best": lambda door, prompt: door.best(prompt, BEST, PARAMS),
}
ARE_READ = ("generate_all", "stream")
# What is asked with, and the part of it that the refusal names.
NO_PROMPTS = (
    (None, "None"),
    (3, "3"),
    (True, "True"),
    (1.5, "1.5"),
    ({"a": 1}, "{'a': 1}"),
    ({7}, "7"),
    (object, "<class 'object'>"),
    (Path("a"), "Path('a')"),
    (b"ab", "b'ab'"),
    (bytearray(b"ab"), "bytearray(b'ab')"),
    (memoryview(b"ab"), "<memory at "),
    ([None], "None"),
    ([1.5], "1.5"),
    ([True], "True"),
    ([b"ab"], "b'ab'"),
    ([None, "a"], "None"),
    ([[None]], "None"),
    ([[1.5]], "1.5"),
    ([[[1]]], "[1]"),
    (np.array(3), "array(3)"),
    (np.array([1.0, 2.0]), "1.0"),
    (np.array([True]), "True"),
    (np.array([None]), "None"),
    (np.array([[0.5]]), "0.5"),
    (np.ones((1, 1, 2), int), "[1, 1]"),
)


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    with LLM(write_tiny_llm(tmp_path_factory.mktemp("model") / "tiny.gguf"), threads=1) as llm:
        yield llm


def blocking(llm, what, prompt):
    told = ASK[what](llm, prompt)
    return list(told) if what in ARE_READ else told


def awaited(llm, what, prompt):
    async def main():
        told = ASK[what](AsyncLLM.of(llm), prompt)
        return [each async for each in told] if what in ARE_READ else await told

    return asyncio.run(main())


def refusal(llm, what, prompt):
    """Its code and its words, which are those of both doors."""
    heard = []
    for ask in (blocking, awaited):
        with pytest.raises(BadRequest) as caught:
            ask(llm, what, prompt)
        heard.append((caught.value.code, str(caught.value)))
    assert llm._engine.is_idle
    assert heard[0] == heard[1]
    return heard[0]


@pytest.mark.parametrize("what", ASK)
@pytest.mark.parametrize(("prompt", "value"), NO_PROMPTS, ids=lambda each: str(each)[:20])
def test_what_is_no_prompt_is_refused_and_named(llm, what, prompt, value):
    code, words = refusal(llm, what, prompt)
    assert code == "bad_prompt"
    assert value in words
    assert "\n" not in words


@pytest.mark.parametrize("what", ASK)
def test_a_generator_is_many_prompts_and_never_one(llm, what):
    if what == "generate_all":
        assert [len(ask(llm, what, (p for p in ("a", "b")))) for ask in (blocking, awaited)] == [2, 2]
    else:
        assert refusal(llm, what, (p for p in ("a", "b")))[0] == "bad_prompt"


def test_an_empty_list_is_no_prompts_or_one_without_tokens(llm):
    for what in ("generate", "generate_all"):
        assert blocking(llm, what, []) == awaited(llm, what, []) == []
        assert refusal(llm, what, [[]])[0] == "empty_prompt"
    for what in ("stream", "score", "best"):
        assert refusal(llm, what, [])[0] == "empty_prompt"


@pytest.mark.parametrize("what", ["generate", "stream", "score", "best"])
@pytest.mark.parametrize("token_id", [-1, 258, 10**30])
def test_an_id_that_the_model_does_not_have_is_named(llm, what, token_id):
    code, words = refusal(llm, what, [1, token_id])
    assert code == "bad_token_id"
    assert f"token id {token_id};" in words


def test_a_list_of_prompts_that_is_long_is_not_written_out(llm):
    _, words = refusal(llm, "generate_all", {str(i): i for i in range(1000)})
    assert len(words) < 200
