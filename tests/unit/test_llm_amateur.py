"""Two models behind one door: contrastive decoding against a plain loop of two reference runners."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
from tiny_llm import write_tiny_llm
from tiny_models import TinySpec, byte_tokenizer_metadata, tiny_source, write_gguf

from unspool.engine.rules import rules_of
from unspool.errors import BadRequest
from unspool.llm import LLM
from unspool.loading import make_runner, open_model
from unspool.logits.contrast import contrast
from unspool.logits.guidance import guide
from unspool.logits.pipeline import process_by_stages
from unspool.params import DecodingParams
from unspool.types import Plan, Row

CONTRASTED = {"contrast_beta": 0.5, "contrast_alpha": 0.05}
BOTH = {**CONTRASTED, "guidance_scale": 1.5, "negative_prompt": "no no"}


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return (
        write_tiny_llm(folder / "expert.gguf"),
        write_tiny_llm(folder / "amateur.gguf", n_layers=1, width=32, ffn_width=32, n_heads=2, seed=5),
    )


def logits_after(runner, token_ids):
    """(V,) of one whole text, read from its beginning."""
    n = len(token_ids)
    n_pages = -(-n // runner.page_size)
    plan = Plan(
        token_ids=np.array(token_ids, np.int32),
        seq_start=np.array([0, n], np.int32),
        n_past=np.array([0], np.int32),
        page_table=np.arange(n_pages, dtype=np.int32),
        page_start=np.array([0, n_pages], np.int32),
        logits_rows=np.array([n - 1], np.int32),
    )
    return runner.forward(plan)[0]


def by_hand(paths, prompt_ids, negative_ids, params):
    """Token ids and final log-probabilities of the plain loop."""
    with closing(open_model(paths[0])) as expert, closing(open_model(paths[1])) as amateur:
        runners = [make_runner("reference", each, 128, 32, None) for each in (expert, amateur)]
        rules = rules_of(params, expert.tokenizer)
        output, logprobs = [], []
        for _ in range(params.max_tokens):
            z = logits_after(runners[0], [*prompt_ids, *output]).astype(float)
            if params.guidance_scale != 1:
                u = logits_after(runners[0], [*negative_ids, *output]).astype(float)
                z = guide(z, u, params.guidance_scale).astype(np.float32).astype(float)
            a = logits_after(runners[1], [*prompt_ids, *output]).astype(float)
            z = contrast(z, a, params.contrast_alpha, params.contrast_beta).astype(np.float32)
            row = Row(
                params, params.seed, 0, [*prompt_ids, *output], len(prompt_ids), rules, wants_candidates=True
            )
            (made,) = process_by_stages(z[None], [row])
            left = made.candidates.logits - made.candidates.logits.max()
            left -= np.log(np.exp(left).sum())
            logprobs.append(left[made.candidates.token_ids == made.chosen.token_id][0])
            output.append(made.chosen.token_id)
        for runner in runners:
            runner.close()
    return output, logprobs


@pytest.mark.parametrize("temperature", [0.0, 1.3])
@pytest.mark.parametrize("form", [CONTRASTED, BOTH], ids=["contrasted", "guided too"])
def test_an_answer_is_that_of_a_plain_loop_over_two_reference_runners(paths, form, temperature):
    params = DecodingParams(
        temperature=temperature, max_tokens=8, seed=4, logprobs=0, ignore_eos=True, **form
    )
    with LLM(paths[0], amateur=paths[1], runner="reference", kv_tokens=512) as llm:
        answer = llm.generate("Once upon", params)
        prompt_ids, negative_ids = llm.tokenize("Once upon"), llm.tokenize("no no")
    ids, logprobs = by_hand(paths, prompt_ids, negative_ids, params)
    assert list(answer.token_ids) == ids
    found = [entry.token.logprob_final for entry in answer.logprobs]
    assert found == pytest.approx(logprobs, abs=2e-4)


def test_an_answer_does_not_depend_on_who_shares_its_steps_nor_on_the_threads(paths):
    params = DecodingParams(max_tokens=12, seed=1, logprobs=1, ignore_eos=True, **BOTH)
    prompts = ["Once upon", "a", "Once upon a time there was", "Once"]
    with LLM(paths[0], amateur=paths[1], threads=2, kv_tokens=2048) as llm:
        together = llm.generate(prompts, params)
    with LLM(paths[0], amateur=paths[1], threads=1, kv_tokens=512) as llm:
        alone = [llm.generate(prompt, params) for prompt in prompts]
    assert [(a.token_ids, a.logprobs) for a in together] == [(a.token_ids, a.logprobs) for a in alone]


def test_without_contrast_an_amateur_changes_nothing(paths):
    params = DecodingParams(max_tokens=8, seed=1, logprobs=1)
    with LLM(paths[0], kv_tokens=256) as plain, LLM(paths[0], amateur=paths[1], kv_tokens=256) as llm:
        one, other = plain.generate("Once", params), llm.generate("Once", params)
    assert (one.token_ids, one.logprobs) == (other.token_ids, other.logprobs)


def test_an_amateur_of_other_tokens_is_refused_with_the_way_out(paths, tmp_path):
    metadata = byte_tokenizer_metadata()
    key = "tokenizer.ggml.tokens"
    metadata[key] = [*metadata[key][1:257], metadata[key][0], *metadata[key][257:]]
    other = write_gguf(tmp_path / "other.gguf", tiny_source(TinySpec(vocab_size=258)), extra=metadata)
    with pytest.raises(
        BadRequest, match=r"has other tokens than .*; give a smaller model of the same"
    ) as refused:
        LLM(paths[0], amateur=other)
    assert refused.value.code == "bad_amateur"


def test_memory_for_the_cache_is_shared_by_both(paths):
    with LLM(paths[0], kv_memory=1 << 20) as plain, LLM(paths[0], amateur=paths[1], kv_memory=1 << 20) as two:
        n_plain, n_two = plain.stats().n_pages, two.stats().n_pages
    assert n_two < n_plain


def test_closing_the_door_closes_both(paths):
    llm = LLM(paths[0], amateur=paths[1], kv_tokens=256)
    llm.close()
    llm.close()
    with pytest.raises(BadRequest, match="closed"):
        llm.generate("x")
