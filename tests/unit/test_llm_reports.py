"""Log-probabilities and traces of a whole model, through the front door and the native runner."""

from __future__ import annotations

import pytest
from tiny_llm import write_tiny_llm

from unspool import LLM, AsyncLLM, DecodingParams, Limits, TokenLogprobs, TokenTrace
from unspool.errors import ContextOverflow

PROMPT = "a prompt that several steps have to read"
ASKING = DecodingParams(
    seed=4, top_p=0.9, max_tokens=12, ignore_eos=True, logprobs=3, prompt_logprobs=3, trace=True
)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_tiny_llm(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


def test_what_was_written_has_the_same_logprobs_when_it_is_read(model):
    with LLM(model, threads=1) as llm:
        written = llm.generate(PROMPT, ASKING)
        ids = (*llm.tokenize(PROMPT), *written.token_ids)
        read = llm.generate(ids, ASKING.replace(max_tokens=1))
    for wrote, found in zip(written.logprobs, read.prompt_logprobs[-12:], strict=True):
        assert isinstance(wrote, TokenLogprobs)
        assert (wrote.token.token_id, wrote.token.logprob) == (found.token.token_id, found.token.logprob)
        assert wrote.rank == found.rank
        assert [(e.token_id, e.logprob) for e in wrote.top] == [(e.token_id, e.logprob) for e in found.top]


def test_reports_do_not_depend_on_steps_and_neighbours(model):
    others = [DecodingParams(seed=n, max_tokens=9) for n in range(3)]
    with LLM(model, threads=1) as llm:
        alone = llm.generate(PROMPT, ASKING)
    with LLM(model, threads=2, limits=Limits(n_rows=7, n_tasks=4, logits_bytes=258 * 4 * 3)) as llm:
        *_, together = llm.generate(["one", "two, and more", "three", PROMPT], [*others, ASKING])
    assert together.logprobs == alone.logprobs
    assert together.prompt_logprobs == alone.prompt_logprobs
    assert together.trace == alone.trace
    assert all(isinstance(trace, TokenTrace) and trace.matches for trace in alone.trace)


@pytest.mark.parametrize(
    "params",
    [
        {"repetition_penalty": 1.3, "frequency_penalty": 0.5, "bad_words": ["e"], "min_p": 0.02, "top_k": 40},
        {"dynatemp_min": 0.5, "dynatemp_max": 1.5, "typical_p": 0.9, "min_tokens": 3, "ignore_eos": False},
        {"mirostat": 2, "mirostat_tau": 3.0},
        {"order": "llama.cpp", "temperature": 0.7, "top_k": 20, "xtc_probability": 0.5},
        {"temperature": 0, "logit_bias": {5: 2.0, 7: False}, "dry_multiplier": 0.8},
    ],
)
def test_a_trace_ends_with_the_candidates_that_the_engine_chose_among(model, params):
    params = DecodingParams(**{"seed": 2, "max_tokens": 20, "ignore_eos": True, **params})
    with LLM(model, threads=1) as llm:
        plain = llm.generate(PROMPT, params)
        done = llm.generate(PROMPT, params.replace(trace=True, logprobs=0))
    assert done.token_ids == plain.token_ids
    assert len(done.trace) == len(done.token_ids)
    assert all(trace.matches for trace in done.trace)
    for trace, found in zip(done.trace, done.logprobs, strict=True):
        assert trace.removed_by(trace.chosen.token_id) is None
        assert trace.chosen.prob_final == pytest.approx(2.718281828459045**found.token.logprob_final)


def test_a_door_says_what_is_behind_it(tmp_path):
    path = write_tiny_llm(tmp_path / "tiny.gguf", context_length=64)
    with LLM(path, threads=1) as llm:
        assert repr(llm) == "<LLM tiny.gguf: context of 64 tokens>"
        assert repr(AsyncLLM.of(llm)) == "<AsyncLLM tiny.gguf: context of 64 tokens>"
    assert repr(llm) == "<LLM tiny.gguf: context of 64 tokens, closed>"


def test_a_context_that_the_cache_keeps_short_is_not_blamed_itself(tmp_path):
    path = write_tiny_llm(tmp_path / "tiny.gguf", context_length=128)
    with LLM(path, threads=1, kv_tokens=32) as llm, pytest.raises(ContextOverflow, match="kv_tokens"):
        llm.generate("a" * 60)
    with (
        LLM(path, threads=1, context_length=32) as llm,
        pytest.raises(ContextOverflow, match="context_length"),
    ):
        llm.generate("a" * 60)
